"""Prices of matrix factorisations and of what is solved with them.

The FLOPs are those of LAPACK's working note 41; the time of one column's step and the share of the rate that the rest
reaches are estimates, by what cuSOLVER and MAGMA are reported to take on an A100 for 1024 and 4096 columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gpututor.devices.virtual.clock.attainable import Attainable
from gpututor.devices.virtual.clock.kinds import short_name
from gpututor.devices.virtual.clock.shapes import Tensor, total_bytes, up

Tensors = Sequence[Tensor]
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


def factorisation(gpu: Attainable, name: str, inputs: Tensors, outputs: Tensors) -> tuple[float, float]:
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
