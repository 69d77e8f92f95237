"""A virtual GPU: `torch.cuda` on a machine that has none, with values and CUDA's rules about devices and memory.

The names are loaded at their first use, so that `gpututor.devices.virtual.options` can be read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpututor.devices.virtual import options

if TYPE_CHECKING:
    from gpututor.devices.virtual.cuda_errors import NoValues as NoValues
    from gpututor.devices.virtual.machine import VirtualMachine as VirtualMachine
    from gpututor.devices.virtual.session import virtual_gpu as virtual_gpu
    from gpututor.devices.virtual.tensors.moves import pinned as pinned
    from gpututor.devices.virtual.tensors.tensor import host_tensor as host_tensor
    from gpututor.devices.virtual.tensors.tensor import is_virtual as is_virtual
    from gpututor.devices.virtual.tensors.tensor import storage_key as storage_key

_MODULES = {
    "NoValues": "cuda_errors",
    "VirtualMachine": "machine",
    "virtual_gpu": "session",
    "is_virtual": "tensors.tensor",
    "host_tensor": "tensors.tensor",
    "storage_key": "tensors.tensor",
    "pinned": "tensors.moves",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with options.explain_missing_names():
        value = getattr(import_module(f"{__name__}.{module}"), name)
    # Later lookups find the name without this function.
    globals()[name] = value
    return value
