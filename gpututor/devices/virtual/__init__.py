"""A virtual GPU: `torch.cuda` on a machine that has none, with values and CUDA's rules about devices and memory.

The names are loaded at their first use, so that `gpututor.devices.virtual.options` can be read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpututor.devices.virtual import options

if TYPE_CHECKING:
    from gpututor.devices.virtual.cuda_errors import NoValues
    from gpututor.devices.virtual.machine import VirtualMachine
    from gpututor.devices.virtual.session import virtual_gpu
    from gpututor.devices.virtual.tensors.moves import pinned
    from gpututor.devices.virtual.tensors.tensor import host_tensor, is_virtual, storage_key

__all__ = [
    "NoValues",
    "VirtualMachine",
    "host_tensor",
    "is_virtual",
    "pinned",
    "storage_key",
    "virtual_gpu",
]

_HOMES = {
    "NoValues": "cuda_errors",
    "VirtualMachine": "machine",
    "virtual_gpu": "session",
    "is_virtual": "tensors.tensor",
    "host_tensor": "tensors.tensor",
    "storage_key": "tensors.tensor",
    "pinned": "tensors.moves",
}


def __getattr__(name: str) -> Any:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with options.lookups_in_words():
        value = getattr(import_module(f"{__name__}.{module}"), name)
    # "virtual_gpu" and the like are found at once from now on.
    globals()[name] = value
    return value
