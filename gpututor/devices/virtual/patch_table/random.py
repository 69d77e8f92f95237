"""Random generators of devices."""

from __future__ import annotations

from gpututor.devices.virtual.face import generators
from gpututor.devices.virtual.patch_table.rows import each
from gpututor.devices.virtual.patches import Patch

_FUNCTIONS = {
    "manual_seed": generators.manual_seed,
    "manual_seed_all": generators.manual_seed_all,
    "seed": generators.seed,
    "seed_all": generators.seed_all,
    "initial_seed": generators.initial_seed,
    "get_rng_state": generators.get_rng_state,
    "get_rng_state_all": generators.get_rng_state_all,
    "set_rng_state": generators.set_rng_state,
    "set_rng_state_all": generators.set_rng_state_all,
}

PATCHES: tuple[Patch, ...] = (
    *each("torch.cuda", "each GPU draws from its own CPU generator", **_FUNCTIONS),
    *each("torch.cuda.random", "torch.random and checkpointing reach the generators here", **_FUNCTIONS),
    *each("torch", "a generator on a device draws on the CPU", Generator=generators.DeviceGenerator),
)
