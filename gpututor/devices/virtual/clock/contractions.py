"""Prices of operators that are matrix products in disguise, or compute something for each pair of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gpututor.devices.virtual.clock.attainable import Attainable
from gpututor.devices.virtual.clock.kinds import short_name
from gpututor.devices.virtual.clock.products import product
from gpututor.devices.virtual.clock.shapes import Tensor, element_bytes, total_bytes

Tensors = Sequence[Tensor]
_BLOCK_CYCLES = 128
"""Cycles of a multiprocessor for the block that computes one distance, however short the rows."""
_DISTANCE_FLOPS = 3
"""Of one pair of elements: a difference, its power, their sum."""


_DIMENSIONS = {
    "_pdist_forward": (2,),
    "_pdist_backward": (0, 2),
    "_cdist_backward": (0, 2, 2),
    "conv_tbc": (3, 3),
    "conv_tbc_backward": (3, 0, 3),
    "_trilinear": (1, 1, 1),
}
"""The fewest dimensions of an operator's inputs; of others two matrices."""


def fits(name: str, inputs: Tensors) -> bool:
    """Whether these can be the inputs of such an operator: of what cannot, the price is that of its bytes."""
    needed = _DIMENSIONS.get(short_name(name), (2, 2))
    enough = len(inputs) >= len(needed) and all(
        len(one[0]) >= least for one, least in zip(inputs, needed, strict=False)
    )
    return enough and ("tbc" not in name or all(len(inputs[at][0]) == 3 for at in (0, len(needed) - 1)))


def pairs_of(name: str, inputs: Tensors, outputs: Tensors) -> tuple[int, int]:
    """(pairs of rows, elements of a row) of a distance operator.

    Inputs are (..., P, M) and (..., R, M) for `_cdist_forward` and `_euclidean_dist`, (N, M) for `_pdist_forward`;
    backward the gradient stands before them.
    """
    bare = short_name(name)
    rows = inputs[1:] if "backward" in bare else inputs
    if bare.startswith("_pdist"):
        count, length = rows[0][0][-2:]
        return (count * count if "backward" in bare else count * (count - 1) // 2), length
    left, right = rows[0][0], rows[1][0]
    batch = max(prod(left[:-2]), prod(right[:-2]), 1)
    return batch * left[-2] * right[-2], left[-1]


def contraction(gpu: Attainable, name: str, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
    """Seconds and filled share."""
    match short_name(name):
        case "_euclidean_dist":
            return _euclidean(gpu, inputs, outputs, tf32)
        case "conv_tbc":
            (time, batch, _), (window, made, channels) = inputs[0][0], _window(inputs[1][0])
            image, kernel = ((time * batch, window * channels), inputs[0][1]), ((window * channels, made), inputs[1][1])
            return product(gpu, [image, kernel], outputs, tf32)
        case "conv_tbc_backward":
            (time, batch, made), (window, _, channels) = inputs[0][0], _window(inputs[2][0])
            dtype = inputs[0][1]
            first = product(gpu, [((time * batch, made), dtype), ((made, window * channels), dtype)], outputs, tf32)
            second = product(gpu, [((window * channels, time * batch), dtype), ((time * batch, made), dtype)], [], tf32)
            return first[0] + second[0], first[1]
        case "_trilinear" if len(inputs) > 2:
            return _trilinear(gpu, inputs, outputs, tf32)
        case "_grouped_mm" | "_scaled_grouped_mm":
            left, right = inputs[0][0][-2:], inputs[1][0][-2:]
            groups = [(left, inputs[0][1]), (right, inputs[1][1])]
            seconds, filled = product(gpu, groups, outputs, tf32)
            return max(seconds, gpu.moved_s(total_bytes(inputs) + total_bytes(outputs))), filled
    return _distances(gpu, name, inputs, outputs)


def _window(weight: tuple[int, ...]) -> tuple[int, int, int]:
    """(window, made, channels) of a kernel of conv_tbc, which is (window, channels, made)."""
    window, channels, made = weight
    return window, made, channels


def _euclidean(gpu: Attainable, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
    """Norms beside the rows, one product of both, and its root (aten/src/ATen/native/Distance.cpp)."""
    (left, dtype), (right, _) = inputs[0], inputs[1]
    inner = left[-1] + 2
    factors = [((*left[:-1], inner), dtype), ((*right[:-2], inner, right[-2]), dtype)]
    seconds, filled = product(gpu, factors, outputs, tf32)
    # Clamped and rooted in place, each a read and a write; the rows are read for their norms and copied beside them.
    return seconds + gpu.moved_s(4 * total_bytes(outputs)) + gpu.moved_s(4 * total_bytes(inputs)), filled


def _distances(gpu: Attainable, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """One block computes each distance, whose rows it reads in the L2 cache (native/cuda/DistanceKernel.cu).

    Backward the part of each pair is written to memory, and summed.
    """
    pairs, length = pairs_of(name, inputs, outputs)
    dtype = inputs[0][1]
    size, rows = element_bytes(dtype), total_bytes(inputs)
    computed = _DISTANCE_FLOPS * pairs * length / gpu.plain_rate(dtype)
    if "backward" in name:
        return max(computed, gpu.moved_s(3 * pairs * length * size)), gpu.filled(pairs)
    blocks = pairs * _BLOCK_CYCLES / (gpu.multiprocessors * gpu.clock_hz)
    read = gpu.moved_s(2 * pairs * length * size, rows)
    return max(computed, blocks, read, gpu.moved_s(rows + total_bytes(outputs))), gpu.filled(pairs * 256)


def _trilinear(gpu: Attainable, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
    """For each of the results (O) a product of (B, I) and (I, J), and its sum with (B, J) (native/Linear.cpp)."""
    (left, dtype), (right, _) = inputs[0], inputs[2]
    weight = inputs[1][0]
    rows = max(prod(left[:-1]), 1)
    made = max(prod(weight[:-2]), 1)
    part = ((rows, right[-1]), dtype)
    seconds, filled = product(gpu, [((rows, left[-1]), dtype), ((left[-1], right[-1]), dtype)], [part], tf32)
    return made * (seconds + gpu.moved_s(3 * total_bytes([part]))), filled


def contraction_flops(name: str, inputs: Tensors, outputs: Tensors) -> float:
    """FLOPs of such an operator by its shapes."""
    match short_name(name):
        case "_euclidean_dist":
            pairs, length = pairs_of(name, inputs, outputs)
            return 2.0 * pairs * (length + 2)
        case "conv_tbc":
            return 2.0 * prod(outputs[0][0]) * inputs[1][0][0] * inputs[1][0][1]
        case "conv_tbc_backward":
            return 4.0 * prod(inputs[0][0]) * inputs[2][0][0] * inputs[2][0][1]
        case "_trilinear":
            return 2.0 * max(prod(inputs[0][0][:-1]), 1) * prod(inputs[1][0])
        case "_grouped_mm" | "_scaled_grouped_mm":
            return 2.0 * prod(inputs[0][0][-2:]) * inputs[1][0][-1]
    pairs, length = pairs_of(name, inputs, outputs)
    return float(_DISTANCE_FLOPS * pairs * length)
