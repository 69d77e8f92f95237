"""Costs of matrix products, contractions, attention and factorizations.

The FLOPs are those of LAPACK's working note 41; the time of one column's step and the share of the rate that the rest
reaches are estimates, by what cuSOLVER and MAGMA are reported to take on an A100 for 1024 and 4096 columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gpututor.devices.virtual.cost.calibration import AchievableRates
from gpututor.devices.virtual.cost.registry import Tensor, element_bytes, tensor_bytes, total_bytes, up
from gpututor.devices.virtual.operator_facts import short_name

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


def _tiled_s(gpu: AchievableRates, batch: int, rows: int, columns: int, inner: int, rate: float) -> tuple[float, float]:
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


def product(
    gpu: AchievableRates, inputs: Sequence[Tensor], outputs: Sequence[Tensor], tf32: bool
) -> tuple[float, float]:
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
    gpu: AchievableRates, inputs: Sequence[Tensor], outputs: Sequence[Tensor], flops: float, tf32: bool, backward: bool
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


def contraction(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
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


def _euclidean(gpu: AchievableRates, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
    """Norms beside the rows, one product of both, and its root (aten/src/ATen/native/Distance.cpp)."""
    (left, dtype), (right, _) = inputs[0], inputs[1]
    inner = left[-1] + 2
    factors = [((*left[:-1], inner), dtype), ((*right[:-2], inner, right[-2]), dtype)]
    seconds, filled = product(gpu, factors, outputs, tf32)
    # Clamped and rooted in place, each a read and a write; the rows are read for their norms and copied beside them.
    return seconds + gpu.moved_s(4 * total_bytes(outputs)) + gpu.moved_s(4 * total_bytes(inputs)), filled


def _distances(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
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


def _trilinear(gpu: AchievableRates, inputs: Tensors, outputs: Tensors, tf32: bool) -> tuple[float, float]:
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


_SMALL_STEP_US = 1.0
"""A column's step where the matrix fits one block's shared memory: no kernel of its own, only barriers."""
_SMALL = 64
"""Columns of such a matrix."""
_BATCHED_ITERATIONS = 32
"""Columns up to which cuSOLVER has batched kernels of its iterative methods; larger ones come one after another."""

_LEAST_STEP = 0.3
"""A step of a small matrix over one of 1024 columns, in these methods."""


@dataclass(frozen=True, slots=True)
class Method:
    """How one factorisation of an n × n matrix, or a solution with n × k right sides, is computed."""

    cubes: float
    """FLOPs over n³, of an m × n matrix over m · n · min(m, n)."""
    squares: float
    """FLOPs over n² · k."""
    step_us: float
    """One column's step, all of which come one after another."""
    rate: float
    """Of a large matrix product's rate, for the rest."""
    iterates: bool = False


_CHOLESKY = Method(1 / 3, 0, 0.85, 0.5)
_LU = Method(2 / 3, 0, 1.5, 0.5)
_SOLVED = Method(0, 2, 0.2, 0.5)
_QR = Method(4 / 3, 0, 3.0, 0.5)
_REFLECTED = Method(4 / 3, 0, 1.0, 0.5)
_EIGH = Method(9, 0, 50.0, 0.05, iterates=True)
_SVD = Method(20, 0, 250.0, 0.01, iterates=True)
_EIG = Method(25, 0, 300.0, 0.003, iterates=True)
_METHODS = {
    "_cholesky_solve_helper": Method(0, 2, 0.2, 0.5),
    "_linalg_det": _LU,
    "_linalg_eigh": _EIGH,
    "_linalg_eigvals": _EIG,
    "_linalg_slogdet": _LU,
    "_linalg_solve_ex": Method(2 / 3, 2, 1.7, 0.5),
    "_linalg_svd": _SVD,
    "cholesky": _CHOLESKY,
    "cholesky_inverse": Method(2 / 3, 0, 1.0, 0.5),
    "cholesky_solve": _SOLVED,
    "geqrf": _QR,
    "linalg_cholesky_ex": _CHOLESKY,
    "linalg_eig": _EIG,
    "linalg_householder_product": _REFLECTED,
    "linalg_inv_ex": Method(2, 0, 1.7, 0.5),
    "linalg_ldl_factor_ex": Method(1 / 3, 0, 3.0, 0.2),
    "linalg_ldl_solve": _SOLVED,
    "linalg_lstsq": Method(4 / 3, 4, 4.0, 0.5),
    "linalg_lu": _LU,
    "linalg_lu_factor_ex": _LU,
    "linalg_lu_solve": _SOLVED,
    # Up to eight products, and the norm that says how many.
    "linalg_matrix_exp": Method(16, 0, 0.0, 0.7),
    # A singular value decomposition, and the products that put it together again.
    "linalg_pinv": Method(24, 0, 250.0, 0.01, iterates=True),
    "linalg_qr": Method(8 / 3, 0, 4.0, 0.5),
    "linalg_solve_triangular": Method(0, 1, 0.1, 0.5),
    "ormqr": Method(0, 2, 1.0, 0.5),
    "triangular_solve": Method(0, 1, 0.1, 0.5),
}


def _columns(inputs: Tensors, factor: tuple[int, ...]) -> int:
    """Right sides: the columns of the matrix that stands beside the factor, 1 for a vector."""
    others = [one[0] for one in inputs[:2] if one[0] != factor and one[0]]
    if not others:
        return factor[-1] if len(inputs) > 1 else 0
    return others[0][-1] if len(others[0]) > 1 else 1


def factorisation(gpu: AchievableRates, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
    """Seconds and filled share of a factorisation of (..., m, n), or a solution with right sides (..., n, k)."""
    method = _METHODS.get(short_name(name), _LU)
    matrices = [one for one in inputs if len(one[0]) > 1]
    square = [one for one in matrices if one[0][-1] == one[0][-2]]
    # What solves has a square factor, before or after its right sides.
    shape, dtype = ((square or matrices)[0] if method.squares else matrices[0]) if matrices else ((1, 1), inputs[0][1])
    *batch, rows, columns = shape
    count, steps = max(prod(batch), 1), min(rows, columns)
    flops = method.cubes * rows * columns * steps + method.squares * rows * columns * _columns(inputs, shape)
    if dtype.startswith("complex"):
        flops *= 4
    rate = gpu.plain_rate(dtype) * method.rate
    step_us = method.step_us if steps > _SMALL else min(method.step_us, method.step_us / 50 + _SMALL_STEP_US)
    if method.iterates and steps > _BATCHED_ITERATIONS:
        # Each fills the GPU, and comes after the one before.
        latency, step_us = count * steps, method.step_us * min(_LEAST_STEP + (1 - _LEAST_STEP) * steps / 1024, 1.0)
    else:
        latency = up(count, gpu.multiprocessors) * steps if count > 1 else steps
    seconds = count * flops / rate + latency * step_us / 1e6
    return seconds + gpu.moved_s(total_bytes(inputs) + total_bytes(outputs)), gpu.filled(count * steps * 64)
