"""Costs of matrix products, contractions, attention and factorizations.

FLOPs of factorizations are those of LAPACK working note 41. Times of column steps and shares of the peak rate are
estimates, from reports on cuSOLVER and MAGMA for 1024 and 4096 columns on an A100.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gpututor.devices.virtual.cost.calibration import AchievableRates
from gpututor.devices.virtual.cost.memory_traffic import (
    Shape,
    Tensor,
    Tensors,
    ceil_div,
    element_bytes,
    tensor_bytes,
    total_bytes,
)
from gpututor.devices.virtual.operator_facts import short_name

_TILES = (
    (128, 128, None), (128, 64, "matmul.tile_64"), (64, 128, "matmul.tile_64"), (64, 64, "matmul.tile_32"),
    (32, 32, "matmul.tile_16"),
)  # fmt: skip
_LARGE_TILE = 256, 128
"""Rows and columns of cuBLAS's large tile for float32 products, on compute capability 9.0 and later. It is used if such
tiles reach all multiprocessors, unless the first factor is transposed (KernelBench's products on an H100)."""
_SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
_SHORTEST_SPLIT = 256
"""Minimum length of a block's part of the inner dimension: splitting further gains nothing."""
STEP_CYCLES = {1: 6.0, 2: 12.0, 4: 22.0, 8: 22.0}
"""Minimum cycles of a tensor-core block per element of the inner dimension, by bytes of an element. A block's steps are
sequential, but several blocks on a multiprocessor overlap (products of 256 and 1024 rows on an H200)."""
_THIN = 8
"""Rows or columns up to which a product has no tiles and only reads its matrix."""
_ALIGNED = 8
"""Half-precision numbers in 16 bytes, the largest load: rows whose length is a multiple are aligned."""


def _matrices(inputs: Tensors) -> list[Tensor]:
    """Return the two factors among the inputs; a bias comes first or has fewer dimensions."""
    matrices = [tensor for tensor in inputs if len(tensor[0]) > 1]
    return (matrices if len(matrices) > 1 else [tensor for tensor in inputs if tensor[0]])[-2:]


def _sizes(left: Shape, right: Shape) -> tuple[int, int, int, int]:
    """Return (batch, rows, columns, inner); the right factor is (..., K, N), (N, K) as in linear, or (K,)."""
    inner = max(left[-1], 1)
    batch = max(prod(left[:-2]), 1) if len(right) > 2 else 1
    columns = 1 if len(right) == 1 else right[-1] if right[-2] == inner else prod(right) // (inner * batch)
    return batch, max(prod(left) // (inner * batch), 1), max(columns, 1), inner


def product_flops(kind: str, inputs: Tensors) -> float:
    """Return the FLOPs of a matrix product, 2·B·M·N·K; 0 for other kinds of operators."""
    if kind != "matmul" or sum(1 for shape, _ in inputs if shape) < 2:
        return 0.0
    (left, _), (right, _) = _matrices(inputs)
    batch, rows, columns, inner = _sizes(left, right)
    return 2.0 * batch * rows * columns * inner


def _tiled_s(
    gpu: AchievableRates,
    batch: int,
    rows: int,
    columns: int,
    inner: int,
    rate: float,
    step_cycles: float,
    large_tiles: bool,
) -> tuple[float, float]:
    """Return the seconds and filled share of the fastest tiling. Blocks run in whole waves over the multiprocessors."""
    tall, wide = _LARGE_TILE
    if large_tiles and max(rows, columns) >= tall and min(rows, columns) >= wide:
        tall_blocks, wide_blocks = (ceil_div(rows, a) * ceil_div(columns, b) for a, b in ((tall, wide), (wide, tall)))
        blocks = batch * min(tall_blocks, wide_blocks)
        if blocks >= gpu.multiprocessors:
            step_s = 2 * tall * wide / (rate / gpu.multiprocessors)
            return ceil_div(blocks, gpu.multiprocessors) * step_s * inner, 1.0
    best, filled = float("inf"), 1.0
    latency_s, floor_s = step_cycles / gpu.clock_hz, gpu.factors["memory.floor_us"] / 1e6
    # Measured from compute capability 9.0 on; older GPUs are fitted without the smallest tile.
    for tall, wide, factor in _TILES if gpu.spec.capability >= (9, 0) else _TILES[:-1]:
        blocks = batch * ceil_div(rows, tall) * ceil_div(columns, wide)
        share = gpu.factors[factor] if factor else 1.0
        step_s = 2 * tall * wide / (rate / gpu.multiprocessors * share)
        for splits in _SPLITS:
            length = max(ceil_div(inner, splits), min(inner, _SHORTEST_SPLIT))
            waves = ceil_div(blocks * splits, gpu.multiprocessors)
            # Another kernel adds the partial sums.
            seconds = max(waves * step_s, latency_s) * length + (floor_s if splits > 1 else 0.0)
            if seconds < best:
                best, filled = seconds, min(1.0, blocks * splits / gpu.multiprocessors)
    return best, filled


def product(
    gpu: AchievableRates, inputs: Tensors, outputs: Tensors, tf32: bool, transposed: bool = False
) -> tuple[float, float]:
    """Return the seconds and filled share of a (batched) matrix product.

    The columns of a `transposed` first factor are contiguous.
    """
    (left, dtype), (right, _) = _matrices(inputs)
    batch, rows, columns, inner = _sizes(left, right)
    read, written = total_bytes(inputs), total_bytes(outputs)
    seconds = gpu.moved_s(read, read + written)
    tensor = gpu.tensor_rate(dtype, tf32) * gpu.tensor_share
    if element_bytes(dtype) == 2 and ((rows if transposed else inner) % _ALIGNED or columns % _ALIGNED):
        tensor *= gpu.unaligned_share
    rate = max(tensor, gpu.plain_rate(dtype)) / (4 if dtype.startswith("complex") else 1)
    if min(rows, columns) <= _THIN:
        computed = 2.0 * batch * rows * columns * inner / rate
        moved = seconds + gpu.moved_s(written, read + written)
        return max(moved, computed), gpu.filled(batch * rows * columns * 32)
    step_cycles = STEP_CYCLES[min(element_bytes(dtype), 8)] if tensor > 0 else 0.0
    large = dtype == "float32" and not tensor and not transposed and gpu.spec.capability >= (9, 0)
    computed, filled = _tiled_s(gpu, batch, rows, columns, inner, rate, step_cycles, large)
    return max(computed, seconds) + gpu.moved_s(written, read + written) * gpu.factors["matmul.epilogue"], filled


ATTENTION_KERNELS = {
    "_scaled_dot_product_flash_attention_backward": 5,
    "_scaled_dot_product_efficient_attention_backward": 2,
    "_scaled_dot_product_cudnn_attention": 2,
    "_scaled_dot_product_cudnn_attention_backward": 4,
}
"""Kernels that fused attention launches, if more than one (an H200, torch 2.11)."""
_HEAD, _LONGEST_HEAD, _HEAD_EXPONENT = 64, 128, 0.35
"""Features of a head to which the shares apply. Up to the second number, the rate grows with this power of the size."""
_DIAGONAL = 220
"""Extra positions that causal attention computes, beyond half of the pairs: whole blocks on the diagonal."""


def attention(
    gpu: AchievableRates,
    name: str,
    inputs: Tensors,
    outputs: Tensors,
    flops: float,
    tf32: bool,
    causal: bool,
) -> tuple[float, float]:
    """Return the seconds and filled share of fused attention; inputs are query (..., L, E), key (..., S, E), ..."""
    query, key = (inputs[0], inputs[1]) if len(inputs) > 1 else (inputs[0], inputs[0])
    backward = "backward" in name
    if not flops:
        flops = 4.0 * prod(query[0]) * key[0][-2] * (2.5 if backward else 1.0)
    if causal:
        flops *= min(0.5 + _DIAGONAL / key[0][-2], 1.0)
    tensor = (
        0.0 if query[1] == "float64" else gpu.tensor_rate(query[1], tf32) * _attention_share(gpu, name, query[0][-1])
    )
    plain = gpu.plain_rate(query[1]) * gpu.factors["attention.plain"]
    rate = max(tensor * (gpu.factors["attention.backward"] if backward else 1.0), plain)
    moved = total_bytes(inputs) + tensor_bytes(outputs[0] if outputs else query)
    blocks = ceil_div(prod(query[0][:-1]), 128)
    filled = min(1.0, blocks / gpu.multiprocessors)
    return max(flops / (rate * filled), gpu.moved_s(moved)), filled


def _attention_share(gpu: AchievableRates, name: str, features: int) -> float:
    """Return the share of the tensor cores' peak; only cuDNN's kernels use the instructions of 9.0 and later."""
    backend = next((backend for backend in ("efficient", "cudnn") if backend in name), "tensor")
    if gpu.spec.capability < (9, 0):
        return gpu.factors["attention.efficient" if backend == "efficient" else "attention.tensor"]
    wide: float = (min(features, _LONGEST_HEAD) / _HEAD) ** _HEAD_EXPONENT
    return gpu.factors[f"attention.{backend}_9_0"] * wide


_BLOCK_CYCLES = 128
"""Minimum cycles of a multiprocessor for the block that computes one distance."""
_DISTANCE_FLOPS = 3
"""FLOPs per pair of elements: difference, power, sum."""
_DIMENSIONS = {
    "_pdist_forward": (2,),
    "_pdist_backward": (0, 2),
    "_cdist_backward": (0, 2, 2),
    "conv_tbc": (3, 3),
    "conv_tbc_backward": (3, 0, 3),
    "_trilinear": (1, 1, 1),
}
"""Minimum dimensions of each input; other contractions take two matrices."""


def fits(name: str, inputs: Tensors) -> bool:
    """Return True if the inputs have the shapes of a contraction; otherwise it costs its bytes."""
    ranks = _DIMENSIONS.get(short_name(name), (2, 2))
    enough = len(inputs) >= len(ranks) and all(len(shape) >= rank for (shape, _), rank in zip(inputs, ranks))  # noqa: B905
    return enough and ("tbc" not in name or len(inputs[0][0]) == len(inputs[len(ranks) - 1][0]) == 3)


def pairs_of(name: str, inputs: Tensors, outputs: Tensors) -> tuple[int, int]:
    """Return (pairs of rows, elements of a row) of a distance operator.

    Inputs are (..., P, M) and (..., R, M) for `_cdist_forward` and `_euclidean_dist`, (N, M) for `_pdist_forward`;
    backward operators take the gradient first.
    """
    bare = short_name(name)
    rows = inputs[1:] if "backward" in bare else inputs
    if bare.startswith("_pdist"):
        count, length = rows[0][0][-2:]
        return (count * count if "backward" in bare else count * (count - 1) // 2), length
    left, right = rows[0][0], rows[1][0]
    batch = max(prod(left[:-2]), prod(right[:-2]), 1)
    return batch * left[-2] * right[-2], left[-1]


def contraction(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
    """Return the seconds and filled share of an operator that multiplies matrices or computes distances."""
    match short_name(name):
        case "_euclidean_dist":
            return _euclidean(gpu, inputs, outputs, tf32)
        case "conv_tbc":
            (time, batch, _), (window, channels, made) = inputs[0][0], inputs[1][0]
            image, kernel = ((time * batch, window * channels), inputs[0][1]), ((window * channels, made), inputs[1][1])
            return product(gpu, [image, kernel], outputs, tf32)
        case "conv_tbc_backward":
            (time, batch, made), (window, channels, _) = inputs[0][0], inputs[2][0]
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


def _euclidean(gpu: AchievableRates, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
    """Return the cost of `_euclidean_dist`: a product of rows extended by their norms, then a root (Distance.cpp)."""
    (left, dtype), (right, _) = inputs[0], inputs[1]
    inner = left[-1] + 2
    factors = [((*left[:-1], inner), dtype), ((*right[:-2], inner, right[-2]), dtype)]
    seconds, filled = product(gpu, factors, outputs, tf32)
    # Clamp and root in place, each a read and a write; the rows are read for their norms and copied next to them.
    return seconds + gpu.moved_s(4 * total_bytes(outputs)) + gpu.moved_s(4 * total_bytes(inputs)), filled


def _distances(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the cost of distances, each computed by a block that reads its rows from the L2 cache.

    The backward pass writes the part of each pair to memory and sums it (native/cuda/DistanceKernel.cu).
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


def _trilinear(gpu: AchievableRates, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
    """Return the cost of a product (B, I)·(I, J) per result, and its sum with (B, J) (native/Linear.cpp)."""
    (left, dtype), (right, _) = inputs[0], inputs[2]
    weight = inputs[1][0]
    rows = max(prod(left[:-1]), 1)
    made = max(prod(weight[:-2]), 1)
    part = ((rows, right[-1]), dtype)
    seconds, filled = product(gpu, [((rows, left[-1]), dtype), ((left[-1], right[-1]), dtype)], [part], tf32)
    return made * (seconds + gpu.moved_s(3 * total_bytes([part]))), filled


def contraction_flops(name: str, inputs: Tensors, outputs: Tensors) -> float:
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


_SMALL_STEP_US = 1.0
"""Microseconds of a column's step if the matrix fits one block's shared memory, so no step needs a kernel."""
_SMALL = 64
"""Maximum number of columns of such a matrix."""
_BATCHED_ITERATIONS = 32
"""Maximum number of columns for which cuSOLVER batches iterative methods; larger matrices run one by one."""
_LEAST_STEP = 0.3
"""Step of a small matrix relative to a step of 1024 columns, in iterative methods."""


@dataclass(frozen=True, slots=True)
class Method:
    """Cost of factoring an n × n matrix, or of solving it for n × k right-hand sides."""

    cubes: float
    """FLOPs over n³; for an m × n matrix over m · n · min(m, n)."""
    squares: float
    """FLOPs over n² · k."""
    step_us: float
    """Microseconds of one column's step; the steps are sequential."""
    rate: float
    """Share of a large matrix product's rate for the remaining arithmetic."""
    iterates: bool = False


_METHODS = {
    name: method
    for names, method in (
        ("cholesky linalg_cholesky_ex", Method(1 / 3, 0, 0.85, 0.5)),
        ("cholesky_inverse", Method(2 / 3, 0, 1.0, 0.5)),
        ("_cholesky_solve_helper cholesky_solve linalg_ldl_solve linalg_lu_solve", Method(0, 2, 0.2, 0.5)),
        ("_linalg_det _linalg_slogdet linalg_lu linalg_lu_factor_ex", Method(2 / 3, 0, 1.5, 0.5)),
        ("_linalg_solve_ex", Method(2 / 3, 2, 1.7, 0.5)),
        ("linalg_inv_ex", Method(2, 0, 1.7, 0.5)),
        ("linalg_ldl_factor_ex", Method(1 / 3, 0, 3.0, 0.2)),
        ("linalg_solve_triangular triangular_solve", Method(0, 1, 0.1, 0.5)),
        ("geqrf", Method(4 / 3, 0, 3.0, 0.5)),
        ("linalg_householder_product", Method(4 / 3, 0, 1.0, 0.5)),
        ("linalg_qr", Method(8 / 3, 0, 4.0, 0.5)),
        ("ormqr", Method(0, 2, 1.0, 0.5)),
        ("linalg_lstsq", Method(4 / 3, 4, 4.0, 0.5)),
        ("_linalg_eigh", Method(9, 0, 50.0, 0.05, iterates=True)),
        ("_linalg_eigvals linalg_eig", Method(25, 0, 300.0, 0.003, iterates=True)),
        ("_linalg_svd", Method(20, 0, 250.0, 0.01, iterates=True)),
        # A singular value decomposition, and the products that combine it.
        ("linalg_pinv", Method(24, 0, 250.0, 0.01, iterates=True)),
        # Up to eight products, and the norm that decides how many.
        ("linalg_matrix_exp", Method(16, 0, 0.0, 0.7)),
    )
    for name in names.split()
}


def _columns(inputs: Tensors, factor: Shape) -> int:
    """Return the number of right-hand sides: the columns of the input that is not the factor, 1 for a vector."""
    others = [shape for shape, _ in inputs[:2] if shape and shape != factor]
    if not others:
        return factor[-1] if len(inputs) > 1 else 0
    return others[0][-1] if len(others[0]) > 1 else 1


def factorization(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Return the seconds and filled share of factoring (..., m, n), or of solving for (..., n, k)."""
    method = _METHODS.get(short_name(name), _METHODS["linalg_lu"])
    matrices = [tensor for tensor in inputs if len(tensor[0]) > 1]
    square = [tensor for tensor in matrices if tensor[0][-1] == tensor[0][-2]]
    # A solver has a square factor, before or after its right-hand sides.
    shape, dtype = ((square or matrices)[0] if method.squares else matrices[0]) if matrices else ((1, 1), inputs[0][1])
    *batch, rows, columns = shape
    count, steps = max(prod(batch), 1), min(rows, columns)
    flops = method.cubes * rows * columns * steps + method.squares * rows * columns * _columns(inputs, shape)
    if dtype.startswith("complex"):
        flops *= 4
    rate = gpu.plain_rate(dtype) * method.rate
    step_us = method.step_us if steps > _SMALL else min(method.step_us, method.step_us / 50 + _SMALL_STEP_US)
    if method.iterates and steps > _BATCHED_ITERATIONS:
        # Each matrix fills the GPU, so they run one after another.
        latency, step_us = count * steps, method.step_us * min(_LEAST_STEP + (1 - _LEAST_STEP) * steps / 1024, 1.0)
    else:
        latency = ceil_div(count, gpu.multiprocessors) * steps if count > 1 else steps
    seconds = count * flops / rate + latency * step_us / 1e6
    return seconds + gpu.moved_s(total_bytes(inputs) + total_bytes(outputs)), gpu.filled(count * steps * 64)
