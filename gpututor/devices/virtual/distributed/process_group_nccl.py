"""NCCL's process group: its class, the groups that carry its tensors, and its events in a profile.

The titles of the events are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.distributed import c10d_private

NCCL_VERSION = (2, 27, 5)
"""NCCL of the CUDA builds of torch 2.9."""
NCCL_TIMEOUT = timedelta(minutes=10)
"""Default timeout of a CUDA build (torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp)."""


class NcclOptions:
    """Replacement for `ProcessGroupNCCL.Options`, without effect."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = NCCL_TIMEOUT
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class VirtualNccl(c10d_private.ProcessGroupGloo):  # type: ignore[misc]
    """Replacement for `ProcessGroupNCCL`, which accepts device tensors only."""

    Options = NcclOptions
    supports_splitting = False
    """`split_group` makes a new group instead."""

    def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
        super().__init__(store, rank, size, timeout=NCCL_TIMEOUT if options is None else options._timeout)
        # C++ does not keep the Python object alive. Without the object, the group would appear to be gloo's.
        _alive.append(self)
        self._own_group: Any = None

    def in_a_group(self) -> Any:
        """Return a process group of this backend alone, for calls of the backend's own methods."""
        if self._own_group is None:
            name = f"gpututor:{len(_alive)}:{id(self)}"
            self._own_group = c10d_private.group_of_one_backend(self, self.rank(), self.size(), name, "cuda")
        return self._own_group


def _through_a_group(name: str) -> Callable[..., Any]:
    """Return a method that calls the operator of `c10d`, because gloo's own method takes no device tensors."""

    def method(self: VirtualNccl, *args: Any, **options: Any) -> Any:
        return getattr(self.in_a_group(), name)(*args, **options)

    return method


for _method in (
    "_allgather_base",
    "_reduce_scatter_base",
    "allgather",
    "allreduce",
    "alltoall",
    "alltoall_base",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
):
    setattr(VirtualNccl, _method, _through_a_group(_method))


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: Any = None,
) -> Any:
    """Replace `torch.distributed.split_group`: return this rank's part of a group, or None if it is in no part.

    NCCL splits communicators to save time. Here, each part is a new group.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    world: Any = torch.distributed.group.WORLD
    if world.bound_device_id is None:
        raise RuntimeError("No device associated with the default pg, not safe to split any process groups")
    for ranks in split_ranks:
        if not ranks:
            raise ValueError("the split group cannot be empty")
        if len(ranks) != len(set(ranks)):
            raise ValueError("the split group cannot have duplicate ranks")
    parent = world if parent_pg is None else parent_pg
    whole, own = torch.distributed.get_process_group_ranks(parent), None
    for ranks in split_ranks:
        part = torch.distributed.new_group(
            [whole[rank] for rank in sorted(ranks)],
            timeout=timeout,
            backend=torch.distributed.get_backend(parent) if backend is None else backend,
            pg_options=pg_options,
            use_local_synchronization=parent is not world,
            group_desc=group_desc,
        )
        own = part if parent.rank() in ranks else own
    return own


def hash_tensors(tensors: list[torch.Tensor]) -> int:
    """Replace `torch._C._distributed_c10d._hash_tensors`, which a CPU build lacks, with another hash."""
    checksum = 0
    for tensor in tensors:
        checksum = zlib.crc32(bytes(tensor.cpu().flatten().view(torch.uint8).tolist()), checksum)
    return checksum


_alive: list[VirtualNccl] = []
_carriers: dict[int, tuple[Any, Any, str]] = {}
"""Backend, group in which it serves CPU tensors, and that group's name, by the id of the backend."""


def nccl_version() -> int:
    """Replace `torch._C._nccl_version`, with its packing."""
    major, minor, patch = NCCL_VERSION
    return major << 32 | minor << 16 | patch


def carrier_of(group: Any) -> tuple[Any, str]:
    """Return a group of the same ranks that sends the CPU tensors behind device tensors, and its name.

    Raise torch's error for a group without a backend for CUDA tensors, and `NotImplementedError` for a backend other
    than nccl and gloo.
    """
    backend = group._get_backend(torch.device("cuda"))
    known = _carriers.get(id(backend))
    if known is not None:
        return known[1:]
    if not isinstance(backend, c10d_private.GLOO_BACKENDS):
        raise cuda_errors.unsupported(f"torch.distributed's backend {backend.name()!r} with device tensors")
    name = f"{group.group_name}:carrier"
    carrier = c10d_private.group_of_one_backend(backend, group.rank(), group.size(), name)
    _carriers[id(backend)] = (backend, carrier, name)
    return carrier, name


def _device_backend(group: Any) -> Any:
    """Return the group's backend for device tensors, without the wrapper of `TORCH_DISTRIBUTED_DEBUG=DETAIL`."""
    backend = group._get_backend(torch.device("cuda"))
    return getattr(backend, "wrapped_pg", backend)


def is_nccl(group: Any) -> bool:
    """Return True if NCCL's rules apply to the group's device tensors."""
    return isinstance(_device_backend(group), VirtualNccl)


def is_world(group: Any) -> bool:
    """Return True for the group of all ranks, and for the group in which its backend's own methods are called."""
    world = torch.distributed.group.WORLD
    with contextlib.suppress(RuntimeError):  # the world may have no backend for device tensors
        return world is not None and _device_backend(group) is _device_backend(world)
    return False


_TITLES = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "allreduce_coalesced",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
    "allgather_": "all_gather",
    "_allgather_base_": "_all_gather_base",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "gather_": "gather",
    "scatter_": "scatter",
    "barrier": "all_reduce_barrier",
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_reduce_coalesced_": "allreduce_coalesced",
    "all_gather_into_tensor": "_all_gather_base",
    "all_gather_into_tensor_out": "_all_gather_base",
    "all_gather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "reduce_scatter_tensor_out": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}
"""Titles in a profile by the operator's name."""


def title(name: str, rank: int, args: Any) -> str:
    """Return the title of a collective, given its operator, this rank and the arguments; empty for other operators."""
    if name == "send":
        return f"nccl:send {rank}->{args[2]}"
    if name == "recv_":
        return f"nccl:recv {rank}<-{args[2]}"
    known = _TITLES.get(name, "")
    return known and f"nccl:{known}"


@contextmanager
def as_nccl(name: str, group: Any, args: Any, inputs: list[torch.Tensor]) -> Iterator[None]:
    """Show the collective of an nccl group as one event of NCCL with the shapes of `inputs`, and nothing of gloo."""
    if not is_nccl(group):
        yield
        return
    shown = title(name, group.rank(), args)
    with torch_private.ProfilerRange(shown, inputs) if shown else nullcontext(), torch_private.unprofiled():
        try:
            yield
        except (RuntimeError, ValueError) as error:
            words = str(error)
            if "ProcessGroupGloo" not in words:
                raise
            raise ValueError(words.replace("ProcessGroupGloo", "ProcessGroupNCCL")) from None
