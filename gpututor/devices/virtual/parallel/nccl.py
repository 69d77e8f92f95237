"""`torch.cuda.nccl`: collectives among the GPUs of one process (torch/csrc/cuda/nccl.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor

VERSION = (2, 27, 5)
"""What `torch.cuda.nccl.version()` says: the NCCL that CUDA builds of torch 2.9 are made with."""

_SUM, _PRODUCT, _MAX, _MIN, _AVERAGE = range(5)
_STEPS: dict[int, Callable[[Tensor, Tensor], Tensor]] = {
    _SUM: Tensor.add_,
    _PRODUCT: Tensor.mul_,
    _MAX: lambda total, one: torch.maximum(total, one, out=total),
    _MIN: lambda total, one: torch.minimum(total, one, out=total),
    _AVERAGE: Tensor.add_,
}


def is_available(tensors: Sequence[Tensor]) -> bool:
    """Stands in for `torch.cuda.nccl.is_available`: dense, contiguous, each on a GPU of its own."""
    fit = all(one.is_cuda and not one.is_sparse and one.is_contiguous() for one in tensors)
    return fit and len({one.get_device() for one in tensors}) == len(tensors)


def version_number() -> int:
    """Stands in for `torch._C._nccl_version`; packed as there."""
    major, minor, patch = VERSION
    return major << 32 | minor << 16 | patch


def version_suffix() -> bytes:
    """Stands in for `torch._C._nccl_version_suffix`."""
    return b""


def _check(inputs: Sequence[Tensor], outputs: Sequence[Tensor], input_share: int, output_share: int) -> None:
    """What NCCL's caller checks before it starts (check_inputs in torch/csrc/cuda/nccl.cpp)."""
    if not inputs:
        raise RuntimeError("input sequence can't be empty")
    if len(inputs) != len(outputs):
        raise RuntimeError(
            f"inputs and outputs sequences have to be of the same length, but got input of length "
            f"{len(inputs)} and output of length {len(outputs)}"
        )
    first = inputs[0]
    devices = set()
    for one, output in zip(inputs, outputs, strict=True):
        if not (one.is_cuda and not one.is_sparse and output.is_cuda and not output.is_sparse):
            raise RuntimeError("input and output elements have to be cuda dense Tensors")
        if one.dtype is not first.dtype or output.dtype is not first.dtype:
            raise RuntimeError("all inputs and outputs must be of the same Tensor dtype")
        if one.get_device() != output.get_device():
            raise RuntimeError("input and output must be on the same device")
        if one.get_device() in devices:
            raise RuntimeError("inputs must be on unique devices")
        devices.add(one.get_device())
        if one.numel() != first.numel():
            raise RuntimeError("all inputs must have the same number of elements")
        if not one.is_contiguous() or not output.is_contiguous():
            raise RuntimeError("all inputs and outputs must be contiguous")
        if output.numel() * output_share != one.numel() * input_share:
            raise RuntimeError("output must be of size input_size * size_multiplier")


def _reduced(inputs: Sequence[Tensor], root: int, op: int) -> Tensor:
    """All `inputs` reduced on the GPU of `inputs[root]`."""
    total = inputs[root].clone()
    for position, one in enumerate(inputs):
        if position != root:
            _STEPS[op](total, one.to(total.device, non_blocking=True))
    return total.div_(len(inputs)) if op == _AVERAGE else total


def all_reduce(inputs: Sequence[Tensor], outputs: Sequence[Tensor], op: int, streams: Any, comms: Any) -> None:
    """Stands in for `torch._C._nccl_all_reduce`."""
    _check(inputs, outputs, 1, 1)
    total = _reduced(inputs, 0, op)
    for output in outputs:
        output.copy_(total, non_blocking=True)


def reduce(inputs: Sequence[Tensor], output: Tensor, root: int, op: int, streams: Any, comms: Any) -> None:
    """Stands in for `torch._C._nccl_reduce`."""
    _check(inputs, [output if position == root else one for position, one in enumerate(inputs)], 1, 1)
    output.copy_(_reduced(inputs, root, op))


def broadcast(inputs: Sequence[Tensor], root: int, streams: Any, comms: Any) -> None:
    """Stands in for `torch._C._nccl_broadcast`."""
    _check(inputs, inputs, 1, 1)
    for position, one in enumerate(inputs):
        if position != root:
            one.copy_(inputs[root], non_blocking=True)


def all_gather(inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Any, comms: Any) -> None:
    """Stands in for `torch._C._nccl_all_gather`."""
    _check(inputs, outputs, len(inputs), 1)
    for output in outputs:
        for chunk, one in zip(output.view(len(inputs), -1), inputs, strict=True):
            chunk.copy_(one.view(-1), non_blocking=True)


def reduce_scatter(inputs: Sequence[Tensor], outputs: Sequence[Tensor], op: int, streams: Any, comms: Any) -> None:
    """Stands in for `torch._C._nccl_reduce_scatter`."""
    _check(inputs, outputs, 1, len(inputs))
    total = _reduced(inputs, 0, op).view(len(inputs), -1)
    for output, chunk in zip(outputs, total, strict=True):
        output.view(-1).copy_(chunk, non_blocking=True)
