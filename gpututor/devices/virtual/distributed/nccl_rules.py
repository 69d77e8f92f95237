"""NCCL's checks and reductions, where gloo's differ.

The checks and errors are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.distributed import c10d_private, gloo
from gpututor.devices.virtual.distributed.process_group_nccl import NCCL_VERSION

_DTYPES = frozenset({
    torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
})  # fmt: skip
_FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz})
_SUMMED_FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
"""Dtypes that NCCL can add up."""
_CPP_NAMES = {"int16": "Short", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"}
_IN_PAIRS = frozenset({"alltoall_", "alltoall_base_", "gather_", "scatter_"})
"""Operators that NCCL implements as messages between pairs of ranks."""


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested lists and tuples."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors_in(value)


def _changed(values: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return nested lists with `change(tensor)` in place of each tensor."""
    if isinstance(values, torch.Tensor):
        return change(values)
    return [_changed(value, change) for value in values] if isinstance(values, list | tuple) else values


def check(name: str, args: tuple[Any, ...], size: int) -> None:
    """Raise NCCL's error for tensors that an operator of `c10d` does not take in a group of `size` ranks."""
    if not all(tensor.is_contiguous() for tensor in tensors_in(args)):
        raise ValueError("Tensors must be contiguous")
    if name == "_allgather_base_":
        gathered, own = args[:2]
        if own.dtype != gathered.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if own.numel() * size != gathered.numel():
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
    elif name == "_reduce_scatter_base_":
        own, whole = args[:2]
        if own.dtype != whole.dtype:
            raise TypeError("input tensor must be the same type as the output tensor.")
        if whole.numel() != own.numel() * size:
            raise ValueError("input tensor must be the same size as output size times world size")
    elif name == "allreduce_coalesced_" and len({tensor.dtype for tensor in args[0]}) > 1:
        raise TypeError("Tensors must have identical type")
    for tensor in tensors_in(args):
        if tensor.dtype not in _DTYPES | _FLOAT8 and not tensor.is_complex():
            dtype = str(tensor.dtype).removeprefix("torch.")
            shown = _CPP_NAMES.get(dtype, dtype.capitalize())
            if name in _IN_PAIRS:
                raise RuntimeError(f"Unconvertible NCCL type {shown}")
            raise TypeError(f"Input tensor data type is not supported for NCCL process group: {shown}")


def duplicate_gpu(rank: int, other: int, slot: int) -> Exception:
    """Return NCCL's error for two ranks on the GPU with number `slot` on the machine."""
    version = ".".join(map(str, NCCL_VERSION))
    return torch.distributed.DistBackendError(
        "NCCL error in: torch/csrc/distributed/c10d/NCCLUtils.cpp, "
        f"invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version {version}\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
        f"Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device {(slot + 1) << 12:x}"
    )


def not_on_bound_device() -> Exception:
    """Return NCCL's error for a tensor on another device than that of `init_process_group`."""
    words = "Attempt to perform collective on tensor not on device passed to init_process_group"
    return torch.distributed.DistBackendError(words)


def as_bytes(hosts: Any) -> Any:
    """Return nested lists with float8 tensors as bytes, because gloo does not know these dtypes."""
    return _changed(hosts, lambda host: host.view(torch.uint8) if host.dtype in _FLOAT8 else host)


def from_bytes(host: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a result as float8 if its inputs, of `dtype`, were sent as bytes."""
    return host.view(dtype) if dtype in _FLOAT8 and host.dtype is torch.uint8 else host


def copies(hosts: Any) -> Any:
    """Return nested lists with copies of CPU tensors."""
    with torch_private.host_only(), torch_private.unprofiled():
        return _changed(hosts, torch.clone)


class _Caught(Exception):
    pass


class _CatchReduction(TorchDispatchMode):
    """Dispatch mode that raises `_Caught` with the reduction that an operator gets."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _Caught(args[2])


@cache
def summing() -> Any:
    """Return `ReduceOp.SUM`, as the operators of `c10d` take it."""
    value = torch.empty(1)
    try:
        with torch_private.unprofiled(), _CatchReduction():  # type: ignore[no-untyped-call]
            c10d_private.group_without_backend().allreduce([value])
    except _Caught as caught:
        return caught.args[0]


_single_process_group = cache(c10d_private.single_process_group)


def _error_of(reduction: Any, dtype: torch.dtype) -> str:
    """Return gloo's error for a reduction of a dtype in a group of one rank; empty without an error."""
    try:
        with torch_private.host_only(), torch_private.without_function_modes(), torch_private.unprofiled():
            value = torch.zeros(1, dtype=dtype)
            work = torch.ops.c10d.allreduce_([value], _single_process_group().boxed(), reduction, None)[1]
            gloo.track_tensors([value])
            c10d_private.CollectiveWork.unbox(work).wait()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


def reduction_name(reduction: Any) -> str:
    """Return AVG, BAND, BOR or BXOR for such a reduction, as the operators of `c10d` take it; empty for others.

    Raise `NotImplementedError` for a reduction with a factor. C++ does not reveal reductions, but gloo's errors do.
    """
    message = _error_of(reduction, torch.float32)
    if not message:
        # Newer versions of gloo average, but not integers.
        return "AVG" if _error_of(reduction, torch.int64) else ""
    if "PREMUL_SUM" in message:
        raise cuda_errors.unsupported(
            "torch.distributed.ReduceOp.PREMUL_SUM, which FSDP's set_gradient_divide_factor() uses",
            "Scale the loss by that factor.",
        )
    return next((name for name in ("AVG", "BAND", "BOR", "BXOR") if f"ReduceOp.{name}" in message), "")


def check_reduction(name: str, dtype: torch.dtype) -> None:
    """Raise NCCL's error for a reduction that it lacks, or lacks for a dtype."""
    if dtype.itemsize == 1 and dtype.is_floating_point:
        if dtype in _SUMMED_FLOAT8:
            raise cuda_errors.unsupported(f"reductions of {dtype} by NCCL")
        raise RuntimeError("Unsupported Float8 type for NCCL reduction")
    if name == "AVG" and dtype is torch.bool:
        raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
    if name in ("BAND", "BOR", "BXOR"):
        raise ValueError(f"Cannot use ReduceOp.{name} with NCCL")


def scaled(hosts: Any, count: int, in_place: bool) -> Any:
    """Return nested lists with tensors of floats multiplied by 1/count, which NCCL then adds up for their average."""

    def scale(host: torch.Tensor) -> torch.Tensor:
        factor = torch.tensor(1 / count, dtype=host.dtype.to_real()).item()
        return host.mul_(factor) if in_place else host.mul(factor)

    with torch_private.host_only(), torch_private.unprofiled():
        return _changed(hosts, scale)


def correct(hosts: Iterable[torch.Tensor], divisor: int) -> None:
    """Divide sums of integers as NCCL does for averages, and convert gloo's byte sums of bools to bools."""
    with torch_private.host_only(), torch_private.unprofiled():
        for host in hosts:
            if host.dtype is torch.bool:
                host.copy_(host.view(torch.uint8) != 0)
            else:
                host.div_(divisor, rounding_mode="trunc")
