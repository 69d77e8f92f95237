"""Copies among several GPUs: what `torch.nn.DataParallel` and `torch.cuda.comm` call (torch/csrc/cuda/comm.cpp).

Written in torch's own calls, so that each copy from one GPU to another is recorded as the transfer that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.machine import CPU, active_machine

Tensor = torch.Tensor


def _shape(sizes: Sequence[int]) -> str:
    """As C++ prints sizes: `[2, 3]`."""
    return f"[{', '.join(str(length) for length in sizes)}]"


def _wrapped(dim: int, tensor: Tensor) -> int:
    """`dim` counted from the front; raises torch's error for a dimension that `tensor` does not have."""
    rank = max(tensor.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def _gpu(index: int) -> torch.device:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return active_machine().gpu(index).device


def broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """Stands in for `torch._C._broadcast`: `tensor` itself where it is already, a copy on each other GPU."""
    found = []
    for index in devices:
        target = _gpu(index)
        if index == tensor.get_device():
            found.append(tensor)
        else:
            copy = torch.empty_like(tensor, device=target)
            found.append(copy.copy_(tensor, non_blocking=True))
    return found


def broadcast_out(tensor: Tensor, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """Stands in for `torch._C._broadcast_out`."""
    for position, output in enumerate(outputs):
        _check_output(position, output)
        if output.size() != tensor.size():
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {_shape(tensor.size())}, "
                f"but output tensor at index {position} has shape {_shape(output.size())}"
            )
    for output in outputs:
        output.copy_(tensor, non_blocking=True)
    return outputs


def _check_output(position: int, output: Tensor) -> None:
    if not output.is_cuda:
        raise RuntimeError(
            "Expected all output tensors to be CUDA tensors, but output tensor at index "
            f"{position} has device '{output.device}'"
        )


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int = 10485760
) -> list[list[Tensor]]:
    """Stands in for `torch._C._broadcast_coalesced`: one list for each GPU; small tensors travel together."""
    if any(one.get_device() != devices[0] for one in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    outputs: list[list[Tensor]] = [list(tensors), *([] for _ in devices[1:])]
    for chunk in torch_private.in_chunks(tensors, buffer_size):
        if chunk[0].is_sparse:
            for one in chunk:
                for output, copy in zip(outputs[1:], broadcast(one, devices)[1:], strict=True):
                    output.append(copy)
            continue
        flat = broadcast(torch_private.flattened(chunk), devices)
        for output, copy in zip(outputs[1:], flat[1:], strict=True):
            # `.data`: they share a buffer, but a write to one must not count as a write to the others.
            output.extend(one.data for one in torch_private.unflattened(copy, chunk))
    return [outputs[0], *(list(torch_private.in_the_order_of(output, tensors)) for output in outputs[1:])]


def scatter(
    tensor: Tensor, devices: Sequence[int], chunk_sizes: Sequence[int] | None, dim: int, streams: Any
) -> list[Tensor]:
    """Stands in for `torch._C._scatter`: a chunk of `tensor` along `dim` for each GPU."""
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is not None and len(chunk_sizes) != len(devices):
        raise RuntimeError(
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    dim = _wrapped(dim, tensor)
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return [
        chunk if index == tensor.get_device() else chunk.to(_gpu(index), non_blocking=True)
        for chunk, index in zip(chunks, devices, strict=False)
    ]


def scatter_out(tensor: Tensor, outputs: Sequence[Tensor], dim: int, streams: Any) -> Sequence[Tensor]:
    """Stands in for `torch._C._scatter_out`."""
    if not outputs:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    dim = _wrapped(dim, tensor)
    for position, output in enumerate(outputs):
        _check_output(position, output)
        expected = list(tensor.size())
        if output.dim() == tensor.dim():
            expected[dim] = output.size(dim)
        if list(output.size()) != expected:
            raise RuntimeError(
                f"Output tensor at index {position} has incorrect shape: {_shape(output.size())}. Expected same "
                f"shape except for scatter dim {dim} as the source tensor: {_shape(tensor.size())}"
            )
    sizes = [output.size(dim) for output in outputs]
    if sum(sizes) != tensor.size(dim):
        raise RuntimeError(
            f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim "
            f"{dim}. Expected {tensor.size(dim)}, but got total size {sum(sizes)}"
        )
    for output, chunk in zip(outputs, tensor.split(sizes, dim), strict=True):
        output.copy_(chunk, non_blocking=True)
    return outputs


def _gathered_size(tensors: Sequence[Tensor], dim: int) -> list[int]:
    """The shape of all `tensors` joined along `dim`; raises CUDA's errors for what does not join."""
    expected = list(tensors[0].size())
    for position, one in enumerate(tensors):
        if not one.is_cuda:
            raise RuntimeError(
                f"Expected all input tensors to be CUDA tensors, but tensor at index {position} has device {one.device}"
            )
        if one.dim() != len(expected):
            raise RuntimeError(
                "Expected all input tensors to have the same number of dimensions, but tensor at index "
                f"{position} has {one.dim()} dimensions, (expected {len(expected)})"
            )
        expected[dim] = one.size(dim)
        if list(one.size()) != expected:
            raise RuntimeError(
                f"Input tensor at index {position} has invalid shape {_shape(one.size())}, "
                f"but expected {_shape(expected)}"
            )
    expected[dim] = sum(one.size(dim) for one in tensors)
    return expected


def _fill(output: Tensor, tensors: Sequence[Tensor], dim: int) -> Tensor:
    chunks = output.split([one.size(dim) for one in tensors], dim)
    for chunk, one in zip(chunks, tensors, strict=True):
        chunk.copy_(one, non_blocking=output.is_cuda)
    return output


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    """Stands in for `torch._C._gather`: joined along `dim` on one GPU; destination -1 is the host."""
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    dim = _wrapped(dim, tensors[0])
    size = _gathered_size(tensors, dim)
    if destination is None:
        target = active_machine().current.device
    else:
        target = CPU if destination == -1 else _gpu(destination)
    channels_last = all(
        one.dim() == 4 and not one.is_contiguous() and one.is_contiguous(memory_format=torch.channels_last)
        for one in tensors
    )
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return _fill(torch.empty(size, dtype=tensors[0].dtype, device=target, memory_format=layout), tensors, dim)


def gather_out(tensors: Sequence[Tensor], output: Tensor, dim: int) -> Tensor:
    """Stands in for `torch._C._gather_out`."""
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    dim = _wrapped(dim, tensors[0])
    size = _gathered_size(tensors, dim)
    if list(output.size()) != size:
        raise RuntimeError(f"Expected out tensor to have shape {_shape(size)}, but got {_shape(output.size())}")
    return _fill(output, tensors, dim)
