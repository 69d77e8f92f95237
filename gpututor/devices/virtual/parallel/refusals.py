"""What of `torch.distributed` is refused by name."""

from __future__ import annotations

from typing import Any

from gpututor.devices.virtual import errors, private

_real_log: Any = private.log_api_usage
_SHARDING = {
    "torch.distributed.fsdp": "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard": "torch.distributed.fsdp.fully_shard",
}


def log_api_usage_once(call: str) -> None:
    """Stands in for `torch._C._log_api_usage_once`, which FSDP calls first: its module need not be imported for this.

    FSDP frees and regrows the storages of its parameters behind C++'s back, which wrappers cannot follow.
    """
    name = _SHARDING.get(call)
    if name is not None:
        raise errors.unsupported(name, "Use DistributedDataParallel.")
    _real_log(call)


def no_times(logger: Any) -> None:
    """Stands in for what DDP calls before each forward pass, to sample times for its private log."""
