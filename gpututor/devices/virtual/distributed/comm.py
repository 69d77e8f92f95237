"""Copies among several GPUs for `torch.nn.DataParallel` and `torch.cuda.comm` (torch/csrc/cuda/comm.cpp).

Written with torch's own calls, so that each copy between GPUs is recorded as a transfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.machine import CPU, active_machine

Tensor = torch.Tensor


def _shape(sizes: Sequence[int]) -> str:
    """Format sizes as C++ does: `[2, 3]`."""
    return f"[{', '.join(str(length) for length in sizes)}]"


def _wrapped(dim: int, tensor: Tensor) -> int:
    """Return `dim` counted from the front; raise torch's error for a dimension that `tensor` does not have."""
    rank = max(tensor.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def _gpu(index: int) -> torch.device:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return active_machine().gpu(index).device


def broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """Replace `torch._C._broadcast`: return `tensor` itself on its own GPU, and a copy on each other GPU."""
    return [
        torch.empty_like(tensor, device=target).copy_(tensor, non_blocking=True)
        if target.index != tensor.get_device()
        else tensor
        for target in map(_gpu, devices)
    ]


def broadcast_out(tensor: Tensor, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
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
    """Replace `torch._C._broadcast_coalesced`: return a list per GPU; small tensors are copied together."""
    if any(tensor.get_device() != devices[0] for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    outputs: list[list[Tensor]] = [list(tensors), *([] for _ in devices[1:])]
    for chunk in torch_private.in_chunks(tensors, buffer_size):
        if chunk[0].is_sparse:
            for tensor in chunk:
                for output, copy in zip(outputs[1:], broadcast(tensor, devices)[1:], strict=True):
                    output.append(copy)
            continue
        flat = broadcast(torch_private.flattened(chunk), devices)
        for output, copy in zip(outputs[1:], flat[1:], strict=True):
            # `.data`: they share a buffer, but a write to one must not count as a write to the others.
            output.extend(tensor.data for tensor in torch_private.unflattened(copy, chunk))
    return [outputs[0], *(list(torch_private.in_the_order_of(output, tensors)) for output in outputs[1:])]


def scatter(
    tensor: Tensor, devices: Sequence[int], chunk_sizes: Sequence[int] | None, dim: int, streams: Any
) -> list[Tensor]:
    """Replace `torch._C._scatter`: return a chunk of `tensor` along `dim` per GPU."""
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


def _gathered_size(tensors: Sequence[Tensor], dim: int) -> tuple[int, list[int]]:
    """Return `dim` counted from the front and the shape of `tensors` joined along it; raise CUDA's errors."""
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    dim = _wrapped(dim, tensors[0])
    expected = list(tensors[0].size())
    for position, tensor in enumerate(tensors):
        if not tensor.is_cuda:
            raise RuntimeError(
                "Expected all input tensors to be CUDA tensors, but tensor at index "
                f"{position} has device {tensor.device}"
            )
        if tensor.dim() != len(expected):
            raise RuntimeError(
                "Expected all input tensors to have the same number of dimensions, but tensor at index "
                f"{position} has {tensor.dim()} dimensions, (expected {len(expected)})"
            )
        expected[dim] = tensor.size(dim)
        if list(tensor.size()) != expected:
            raise RuntimeError(
                f"Input tensor at index {position} has invalid shape {_shape(tensor.size())}, "
                f"but expected {_shape(expected)}"
            )
    expected[dim] = sum(tensor.size(dim) for tensor in tensors)
    return dim, expected


def _fill(output: Tensor, tensors: Sequence[Tensor], dim: int) -> Tensor:
    for chunk, tensor in zip(output.split([tensor.size(dim) for tensor in tensors], dim), tensors, strict=True):
        chunk.copy_(tensor, non_blocking=output.is_cuda)
    return output


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    """Replace `torch._C._gather`: join tensors along `dim` on one GPU; destination -1 is the host."""
    dim, size = _gathered_size(tensors, dim)
    if destination is None:
        target = active_machine().current.device
    else:
        target = CPU if destination == -1 else _gpu(destination)
    channels_last = all(
        tensor.dim() == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
        for tensor in tensors
    )
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return _fill(torch.empty(size, dtype=tensors[0].dtype, device=target, memory_format=layout), tensors, dim)


def gather_out(tensors: Sequence[Tensor], output: Tensor, dim: int) -> Tensor:
    dim, size = _gathered_size(tensors, dim)
    if list(output.size()) != size:
        raise RuntimeError(f"Expected out tensor to have shape {_shape(size)}, but got {_shape(output.size())}")
    return _fill(output, tensors, dim)
