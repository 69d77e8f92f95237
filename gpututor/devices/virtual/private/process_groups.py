"""PyTorch's private functions of process groups, and of copies among several GPUs."""

from __future__ import annotations

from datetime import timedelta
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
"""Gloo, and what `TORCH_DISTRIBUTED_DEBUG=DETAIL` wraps around it."""


def group_of_one_backend(backend: Any, rank: int, size: int, name: str) -> Any:
    """A process group that gives `backend` CPU tensors; functional collectives find it by `name`.

    The group is not told its name: it would pass it on to the backend, and so to all groups of that backend.
    """
    group = ProcessGroup(_c10d.HashStore(), rank, size)
    group._set_default_backend(ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, backend)
    _c10d._register_process_group(name, group)
    return group


def process_group_named(name: str) -> Any:
    return _c10d._resolve_process_group(name)


def group_of_none() -> Any:
    """A process group without a backend: it can be asked, and does nothing."""
    return ProcessGroup(_c10d.HashStore(), 0, 1)


def lonely_group() -> Any:
    """A process group of this process alone, with gloo."""
    backend = ProcessGroupGloo(_c10d.HashStore(), 0, 1, timeout=timedelta(minutes=1))
    return group_of_one_backend(backend, 0, 1, "gpututor:alone")


def script_class(value: Any) -> str:
    """The name of the C++ class of an operator's argument, such as `ProcessGroup`; empty for anything else."""
    if type(value) is not torch.ScriptObject:
        return ""
    kind: Any = value._type()
    return str(kind.name())


# How small tensors travel together between GPUs.
in_chunks: Any = torch._utils._take_tensors
flattened: Any = torch._utils._flatten_dense_tensors
unflattened: Any = torch._utils._unflatten_dense_tensors
in_the_order_of: Any = torch._utils._reorder_tensors_as
