"""Random operators of DTensor, which would compute with the seed and the offset in the state of CUDA's generator.

As on CUDA, replicas of a shard draw the same values, and different shards draw different ones. The modules of DTensor
take long to import, so they are changed when the program imports them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.after_import import AfterImport
from gpututor.devices.virtual.distributed import c10d_private
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.operators.draws import RandomState, generators

_MODULE = "torch.distributed.tensor._random"
_SEED_BYTES = 8
"""Bytes of the seed at the start of a CPU generator's state."""


@contextmanager
def watch_dtensor() -> Iterator[None]:
    """Let DTensor draw on the virtual GPU inside the block."""
    with ExitStack() as undo:

        def change(module: Any) -> None:
            tracker = module.OffsetBasedRNGTracker
            for name, method in (("__init__", _starting(tracker.__init__)), ("_distribute_region", draw_shard)):
                undo.callback(setattr, tracker, name, getattr(tracker, name))
                setattr(tracker, name, method)
            # DTensor propagates the shape of `uniform_` through a copy, for which a CPU build has no code.
            table, uniform = c10d_private.decompositions(), torch.ops.aten.uniform_.default
            undo.callback(table.__setitem__, uniform, table[uniform])
            table[uniform] = lambda values, *args, **options: values

        finder = AfterImport(_MODULE, change)
        undo.callback(finder.remove)
        if _MODULE in sys.modules:
            change(sys.modules[_MODULE])
        else:
            finder.install()
        yield


def _starting(real: Any) -> Any:
    """Return a replacement for `OffsetBasedRNGTracker.__init__`, which compares states byte by byte."""

    def start(self: Any, device_mesh: Any, run_state_sync: bool = True) -> None:
        real(self, device_mesh, run_state_sync=False)
        if run_state_sync:
            generator: Any = active_machine().current.generator
            own = generator.get_state()
            state = own.to(generator.device)
            torch.distributed.broadcast(state, 0)
            common = state.cpu()
            if common.tolist() != own.tolist():
                logging.getLogger(_MODULE).warning(
                    "DTensor is synchronizing RNG states of every rank with the state from rank 0. "
                    "Please call `torch.manual_seed()` on every rank with the same seed."
                )
            generator.set_state(common)

    return start


@contextmanager
def draw_shard(self: Any, spec: Any, generator: Any = None) -> Iterator[None]:
    """Replace `OffsetBasedRNGTracker._distribute_region`, inside which an operator draws this rank's shard.

    The first shard draws the values of a plain tensor of its shape.
    """
    if not self.distribute_region_enabled:
        yield
        return
    default: Any = active_machine().current.generator
    source: Any = default if generator is None else generators[generator._cdata]
    own_state, state = default.get_state(), source.get_state()
    # All ranks continue with the same state, from which no shard has drawn.
    offset = source.state.offset + -(-spec.shape.numel() // 4) * 4
    with torch_private.host_only():
        seed = int(torch.randint(1 << 31, (), generator=source.state.real))
        later = RandomState()
        later.restart(seed)
        later_values = later.get()
        later_values[:_SEED_BYTES] = state[:_SEED_BYTES]
    default.set_state(state)
    shard = _shard_number(spec)
    if shard:
        default.manual_seed(seed + shard)
    try:
        yield
    finally:
        default.set_state(own_state)
        source.state.set(later_values, offset)


def _shard_number(spec: Any) -> int:
    """Return the number of this rank's shard, the same for its replicas."""
    number = 0
    for dimension, (placement, place) in enumerate(zip(spec.placements, spec.mesh.get_coordinate(), strict=True)):
        if not placement.is_replicate() and not placement.is_partial():
            number = number * spec.mesh.size(dimension) + place
    return number
