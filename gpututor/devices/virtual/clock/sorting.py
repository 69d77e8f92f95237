"""Prices of sorting, and of what finds some elements of many: the largest, those at a rank, those that are not 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2, prod

from gpututor.devices.virtual.clock.attainable import Attainable
from gpututor.devices.virtual.clock.kinds import short_name
from gpututor.devices.virtual.clock.shapes import Tensor, element_bytes, tensor_bytes, total_bytes

Tensors = Sequence[Tensor]
_SECTOR = 32
"""Bytes that a step of a binary search reads."""
_CACHED_STEPS = 10
"""First steps of a binary search, which all threads make at the same few places."""
_KEY = 8
"""Bytes of a random key, and of the place beside it, in a permutation."""


def sort(gpu: Attainable, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Seconds and filled share of a sort by digits, keys with their places, or of a search by digits without one."""
    match short_name(name):
        case "topk" if inputs and outputs:
            return _largest(gpu, inputs[0], outputs[0])
        case "kthvalue" | "median" | "nanmedian" if inputs:
            return _at_rank(gpu, inputs[0], outputs)
        case "searchsorted" | "bucketize" if len(inputs) > 1 and outputs:
            bounds = inputs[0 if short_name(name) == "searchsorted" else 1]
            return _searched(gpu, bounds, inputs, outputs)
        case "nonzero" | "argwhere" if inputs:
            # Counted, then chosen, then the places are split into one index for each dimension.
            read, written = total_bytes(inputs), total_bytes(outputs)
            return gpu.moved_s(2 * read + 3 * written), gpu.filled(prod(inputs[0][0]) / 4)
        case "unique_consecutive" if inputs:
            return gpu.moved_s(4 * total_bytes(inputs) + 2 * total_bytes(outputs)), gpu.filled(prod(inputs[0][0]) / 4)
        case "randperm":
            elements = max((prod(one[0]) for one in outputs), default=1)
            moved = elements * 2 * _KEY * gpu.factors["sort.passes"]
            return gpu.moved_s(moved), gpu.filled(elements / 4)
    elements = max((prod(one[0]) for one in (*inputs, *outputs)), default=1)
    widest = max((element_bytes(one[1]) for one in inputs), default=4)
    return _sorted_s(gpu, elements, widest), gpu.filled(elements / 4)


def _sorted_s(gpu: Attainable, elements: int, widest: int) -> float:
    return gpu.moved_s(elements * (widest + 8) * gpu.factors["sort.passes"] / 2)


def _largest(gpu: Attainable, values: Tensor, found: Tensor) -> tuple[float, float]:
    """The k-th is found digit after digit, eight bits at a time, then what is above it gathered, and sorted.

    Never more than a whole sort (native/cuda/TensorTopK.cu).
    """
    size = element_bytes(values[1])
    searched = gpu.moved_s(tensor_bytes(values) * (size + 2)) + _sorted_s(gpu, prod(found[0]), size)
    return min(searched, _sorted_s(gpu, prod(values[0]), size)), gpu.filled(prod(values[0]) / 4)


def _at_rank(gpu: Attainable, values: Tensor, outputs: Tensors) -> tuple[float, float]:
    """The same, two bits at a time, by one block for each row (native/cuda/Sorting.cu)."""
    rows = max(prod(outputs[0][0]) if outputs else 1, 1)
    moved = tensor_bytes(values) * (4 * element_bytes(values[1]) + 1)
    by_blocks_s = moved / (rows * gpu.factors["softmax.block_gb_s"] * 1e9)
    return max(gpu.moved_s(moved), by_blocks_s), gpu.filled(rows * 1024)


def _searched(gpu: Attainable, bounds: Tensor, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """A binary search for each value."""
    elements = prod(outputs[0][0])
    steps = max(ceil(log2(max(bounds[0][-1] if bounds[0] else 1, 2))) - _CACHED_STEPS, 0)
    read = gpu.moved_s(elements * steps * _SECTOR, tensor_bytes(bounds))
    return read + gpu.moved_s(total_bytes(inputs) + total_bytes(outputs)), gpu.filled(elements)
