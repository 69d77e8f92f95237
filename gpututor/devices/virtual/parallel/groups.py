"""Process groups: `nccl` is accepted for device tensors, and gloo carries their values between the processes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.private import process_groups

NCCL_TIMEOUT = timedelta(minutes=10)
"""As in a CUDA build (torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)."""


class NcclOptions:
    """Stands in for `ProcessGroupNCCL.Options`: what is set here is kept, and changes nothing."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = NCCL_TIMEOUT
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class VirtualNccl(process_groups.ProcessGroupGloo):  # type: ignore[misc]
    """Stands in for `ProcessGroupNCCL`; serves device tensors only, as that does."""

    Options = NcclOptions

    def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
        super().__init__(store, rank, size, timeout=NCCL_TIMEOUT if options is None else options._timeout)
        # C++ keeps its half only: the group would be told to be gloo's once this is gone.
        _alive.append(self)

    @property
    def supports_splitting(self) -> bool:
        """NCCL splits communicators to save time; a new group costs nothing here."""
        return False


_alive: list[VirtualNccl] = []
_carriers: dict[int, tuple[Any, Any, str]] = {}
"""By the id of a backend: the backend, a group in which it serves CPU tensors, and that group's name."""


def nccl_is_available() -> bool:
    """Stands in for `torch.distributed.is_nccl_available`."""
    return True


def carrier_of(group: Any) -> tuple[Any, str]:
    """A group of the same processes, whose collectives take the CPU tensors behind device tensors; and its name.

    Raises torch's error for a group that has no backend for CUDA tensors, and `NotImplementedError` for a backend
    other than nccl and gloo.
    """
    backend = group._get_backend(torch.device("cuda"))
    found = _carriers.get(id(backend))
    if found is not None:
        return found[1:]
    if not isinstance(backend, process_groups.GLOO_BACKENDS):
        raise errors.unsupported(f"torch.distributed's backend {backend.name()!r} with device tensors")
    name = f"{group.group_name}:carrier"
    carrier = process_groups.group_of_one_backend(backend, group.rank(), group.size(), name)
    _carriers[id(backend)] = (backend, carrier, name)
    return carrier, name


def is_nccl(group: Any) -> bool:
    """Whether device tensors of this group go by NCCL's rules."""
    return isinstance(group._get_backend(torch.device("cuda")), VirtualNccl)
