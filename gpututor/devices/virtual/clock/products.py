"""Prices of matrix products and attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gpututor.devices.virtual.clock.attainable import Attainable
from gpututor.devices.virtual.clock.shapes import Tensor, tensor_bytes, total_bytes, up

_TILES = ((128, 128, None), (128, 64, "matmul.tile_64"), (64, 128, "matmul.tile_64"), (64, 64, "matmul.tile_32"))
_SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
_SHORTEST_SPLIT = 256
"""Of the inner dimension: a block that sums fewer products than that gains nothing."""
_THIN = 8
"""A product with so few rows or columns only reads its matrix: no tiles."""


def _matrices(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The two factors among the inputs: a bias stands before or after them, and has fewer dimensions or comes first."""
    matrices = [one for one in inputs if len(one[0]) > 1]
    return (matrices if len(matrices) > 1 else [one for one in inputs if one[0]])[-2:]


def _sizes(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(batch, rows, columns, inner) of a product; the right factor (..., K, N), (N, K) as in linear, or (K,)."""
    inner = max(left[-1], 1)
    batch = max(prod(left[:-2]), 1) if len(right) > 2 else 1
    columns = 1 if len(right) == 1 else right[-1] if right[-2] == inner else prod(right) // (inner * batch)
    return batch, max(prod(left) // (inner * batch), 1), max(columns, 1), inner


def product_flops(kind: str, inputs: Sequence[Tensor]) -> float:
    """FLOPs of a matrix product by its shapes, two for each product; 0 for another kind of operator."""
    if kind != "matmul" or sum(1 for one in inputs if one[0]) < 2:
        return 0.0
    (left, _), (right, _) = _matrices(inputs)
    batch, rows, columns, inner = _sizes(left, right)
    return 2.0 * batch * rows * columns * inner


def _tiled_s(gpu: Attainable, batch: int, rows: int, columns: int, inner: int, rate: float) -> tuple[float, float]:
    """Seconds and filled share of the best of the tiles, in whole waves over the multiprocessors."""
    best, filled = float("inf"), 1.0
    for tall, wide, factor in _TILES:
        blocks = batch * up(rows, tall) * up(columns, wide)
        share = gpu.factors[factor] if factor else 1.0
        one = 2 * tall * wide / (rate / gpu.multiprocessors * share)
        for splits in _SPLITS:
            length = max(up(inner, splits), min(inner, _SHORTEST_SPLIT))
            seconds = up(blocks * splits, gpu.multiprocessors) * one * length
            if seconds < best:
                best, filled = seconds, min(1.0, blocks * splits / gpu.multiprocessors)
    return best, filled


def product(gpu: Attainable, inputs: Sequence[Tensor], outputs: Sequence[Tensor], tf32: bool) -> tuple[float, float]:
    """Seconds and filled share of a (batched) matrix product."""
    (left, dtype), (right, _) = _matrices(inputs)
    batch, rows, columns, inner = _sizes(left, right)
    read, written = total_bytes(inputs), total_bytes(outputs)
    seconds = gpu.moved_s(read, read + written)
    tensor = gpu.tensor_rate(dtype, tf32) * gpu.tensor_share
    rate = max(tensor, gpu.plain_rate(dtype)) / (4 if dtype.startswith("complex") else 1)
    if min(rows, columns) <= _THIN:
        computed = 2.0 * batch * rows * columns * inner / rate
        moved = seconds + gpu.moved_s(written, read + written)
        return max(moved, computed), gpu.filled(batch * rows * columns * 32)
    computed, filled = _tiled_s(gpu, batch, rows, columns, inner, rate)
    return max(computed, seconds) + gpu.moved_s(written, read + written) * gpu.factors["matmul.epilogue"], filled


def attention(
    gpu: Attainable, inputs: Sequence[Tensor], outputs: Sequence[Tensor], flops: float, tf32: bool, backward: bool
) -> tuple[float, float]:
    """Seconds and filled share of fused attention: query (..., L, E), key and value (..., S, E) among the inputs."""
    query, key = (inputs[0], inputs[1]) if len(inputs) > 1 else (inputs[0], inputs[0])
    if not flops:
        flops = 4.0 * prod(query[0]) * key[0][-2] * (2.5 if backward else 1.0)
    # The kernels are written for the tensor cores of 8.0; later ones do more a cycle than these can feed.
    share = gpu.factors["attention.tensor" if gpu.spec.capability < (9, 0) else "attention.tensor_9_0"]
    peak = 0.0 if query[1] == "float64" else gpu.tensor_rate(query[1], tf32)
    rate = max(peak * share, gpu.plain_rate(query[1]) * gpu.factors["attention.plain"])
    if backward:
        rate *= gpu.factors["attention.backward"]
    moved = total_bytes(inputs) + tensor_bytes(outputs[0] if outputs else query)
    blocks = up(prod(query[0][:-1]), 128)
    filled = min(1.0, blocks / gpu.multiprocessors)
    return max(flops / (rate * filled), gpu.moved_s(moved)), filled
