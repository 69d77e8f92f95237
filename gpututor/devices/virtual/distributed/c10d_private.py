"""Private names of torch.distributed: its process groups in C++, and gloo's."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
import torch.distributed

HAS_DISTRIBUTED: bool = torch.distributed.is_available()
_c10d: Any = torch._C._distributed_c10d if HAS_DISTRIBUTED else None
ProcessGroupGloo: Any = getattr(_c10d, "ProcessGroupGloo", object)
ProcessGroup: Any = getattr(_c10d, "ProcessGroup", object)
CollectiveWork: Any = getattr(_c10d, "Work", object)
GLOO_BACKENDS: tuple[Any, ...] = tuple(
    getattr(_c10d, name) for name in ("ProcessGroupGloo", "_ProcessGroupWrapper") if hasattr(_c10d, name)
)
"""Gloo, and its wrapper with `TORCH_DISTRIBUTED_DEBUG=DETAIL`."""


def group_of_one_backend(backend: Any, rank: int, size: int, name: str, device: str = "cpu") -> Any:
    """Return a process group that gives `backend` tensors on `device`; functional collectives find it by `name`.

    The group is registered without setting its name, because it would rename the backend that it shares with others.
    """
    group = ProcessGroup(_c10d.HashStore(), rank, size)
    group._set_default_backend(ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device(device), ProcessGroup.BackendType.GLOO, backend)
    _c10d._register_process_group(name, group)
    return group


def unboxed(group: Any) -> Any:
    """Return the process group in a script object, as operators take it."""
    return ProcessGroup.unbox(group)


def process_group_named(name: str) -> Any:
    return _c10d._resolve_process_group(name)


def group_without_backend() -> Any:
    """Return a process group without a backend, which cannot communicate."""
    return ProcessGroup(_c10d.HashStore(), 0, 1)


def single_process_group() -> Any:
    """Return a gloo process group that contains only this process."""
    backend = ProcessGroupGloo(_c10d.HashStore(), 0, 1, timeout=timedelta(minutes=1))
    return group_of_one_backend(backend, 0, 1, "gpututor:alone")


def decompositions() -> Any:
    """Return torch's table of decompositions, by which DTensor computes the shapes of results."""
    return import_module("torch._decomp").decomposition_table


def script_class(value: Any) -> str:
    """Return the name of the C++ class of an operator's argument, such as `ProcessGroup`; empty for anything else."""
    if type(value) is not torch.ScriptObject:
        return ""
    kind: Any = value._type()
    return str(kind.name())
