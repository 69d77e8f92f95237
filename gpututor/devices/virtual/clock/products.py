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


def sizes(inputs: Sequence[Tensor], output: Tensor) -> tuple[int, int, int, int]:
    """(batch, rows, columns, inner) of a product, from the last two inputs that are no vectors of a bias; 1 where unknown."""
    factors = [one[0] for one in inputs if one[0]][-2:]
    if len(factors) < 2:
        return 1, prod(output[0]), 1, 1
    left, right = factors
    inner = left[-1]
    columns = right[-1] if len(right) > 1 and right[-2] == inner else prod(right) // max(inner, 1)
    if len(right) == 1:
        columns = 1
    batch = prod(left[:-2]) if len(right) > 2 else 1
    rows = prod(left) // max(inner * batch, 1)
    return max(batch, 1), max(rows, 1), max(columns, 1), max(inner, 1)


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
    output = outputs[0] if outputs else inputs[0]
    batch, rows, columns, inner = sizes(inputs, output)
    dtype = inputs[-1][1] if inputs else "float32"
    read, written = total_bytes(inputs), total_bytes(outputs)
    seconds = gpu.moved_s(read, read + written)
    if min(rows, columns) <= _THIN:
        return seconds + gpu.moved_s(written, read + written), gpu.filled(batch * rows * columns * 32)
    tensor = gpu.tensor_rate(dtype, tf32) * gpu.factors["matmul.tensor"]
    rate = max(tensor, gpu.plain_rate(dtype)) / (4 if dtype.startswith("complex") else 1)
    computed, filled = _tiled_s(gpu, batch, rows, columns, inner, rate)
    return max(computed, seconds) + gpu.moved_s(written, read + written) * gpu.factors["matmul.epilogue"], filled


def attention(
    gpu: Attainable, inputs: Sequence[Tensor], outputs: Sequence[Tensor], flops: float, tf32: bool, backward: bool
) -> tuple[float, float]:
    """Seconds and filled share of fused attention: query (..., L, E), key and value (..., S, E) among the inputs."""
    query, key = (inputs[0], inputs[1]) if len(inputs) > 1 else (inputs[0], inputs[0])
    if not flops:
        flops = 4.0 * prod(query[0]) * key[0][-2] * (2.5 if backward else 1.0)
    tensor = gpu.tensor_rate(query[1], tf32) * gpu.factors["matmul.tensor"]
    rate = max(tensor, gpu.plain_rate(query[1])) * gpu.factors["attention.fused"]
    moved = total_bytes(inputs) + tensor_bytes(outputs[0] if outputs else query)
    blocks = up(prod(query[0][:-1]), 128)
    filled = min(1.0, blocks / gpu.multiprocessors)
    return max(flops / (rate * filled), gpu.moved_s(moved)), filled
