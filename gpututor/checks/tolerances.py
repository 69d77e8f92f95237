"""Tolerances of parity: the error allowed for each dtype, and the error of a result.

Two figures: the relative Frobenius error ‖out−ref‖/‖ref‖, and the largest error divided by the RMS of its row.
Measured over sizes from 4 to 4096: honest float32 stays under 3e-7. TF32 and float16 are at about 3e-4, bfloat16 is at
3e-3, and nonsense is above 0.28. So the tiers below separate them by a factor of ten or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class ToleranceGates:
    """The largest errors of an honest result."""

    frobenius: float
    """Largest ‖out−ref‖/‖ref‖."""
    largest: float
    """Largest max |out−ref|, divided by the RMS of its row of ref."""

    def widened(self, times: float) -> ToleranceGates:
        return ToleranceGates(self.frobenius * times, self.largest * times)

    def or_wider(self, other: ToleranceGates) -> ToleranceGates:
        return ToleranceGates(max(self.frobenius, other.frobenius), max(self.largest, other.largest))


TIERS = {
    torch.float64: ToleranceGates(1e-12, 1e-11),
    torch.complex128: ToleranceGates(1e-12, 1e-11),
    torch.float32: ToleranceGates(1e-5, 1e-4),
    torch.complex64: ToleranceGates(1e-5, 1e-4),
    torch.float16: ToleranceGates(1e-3, 1e-2),
    torch.bfloat16: ToleranceGates(1e-2, 1e-1),
}
"""Gates by dtype. Results in TF32 are judged as float16; dtypes without gates must be equal."""
OWN_ERROR = 3.0
"""Error allowed for a chain of operators, as a multiple of its reference's error in the same dtype."""
WIDEST = ToleranceGates(0.1, 1.0)
"""Limit of the allowance by `OWN_ERROR`: nonsense begins at 0.28."""


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of a check of values."""

    reference: Callable[..., Any]
    times: float = 1.0
    inside: torch.dtype | None = None
    """Lowest precision that may be used inside."""


@dataclass(frozen=True)
class Errors:
    """Errors of a result relative to its reference."""

    frobenius: float
    largest: float
    relative: torch.Tensor
    """Error of each element divided by the RMS of its row; inf if only one of the two is finite."""
    strange: torch.Tensor
    """Mask of elements with an inf or nan that only one side has."""

    def within(self, gates: ToleranceGates) -> bool:
        return self.frobenius <= gates.frobenius and self.largest <= gates.largest

    def times(self, gates: ToleranceGates) -> float:
        """Return the larger ratio of an error to its gate."""
        return max(self.frobenius / gates.frobenius, self.largest / gates.largest)


def gates_for_dtype(
    dtype: torch.dtype, own: Errors | None, times: float = 1.0, inside: torch.dtype | None = None
) -> ToleranceGates:
    """Return the gates for a result of a floating `dtype`; `own` are the reference's errors in that dtype, if known."""
    gates = TIERS[dtype].or_wider(TIERS[inside]) if inside is not None else TIERS[dtype]
    if own is not None and math.isfinite(own.frobenius) and math.isfinite(own.largest):
        calibrated = ToleranceGates(
            min(OWN_ERROR * own.frobenius, WIDEST.frobenius), min(OWN_ERROR * own.largest, WIDEST.largest)
        )
        gates = gates.or_wider(calibrated)
    return gates.widened(times)


def errors_of(got: torch.Tensor, ref: torch.Tensor) -> Errors:
    """Return the errors of `got`, of a dtype in `TIERS`, relative to `ref`, which is wider and has the same shape."""
    if got.shape != ref.shape:
        raise ValueError(f"shapes {tuple(got.shape)} and {tuple(ref.shape)} cannot be compared")
    wide = got.to(torch.complex128 if got.is_complex() or ref.is_complex() else torch.float64)
    ref = ref.to(wide.dtype)
    strange, counted = _strange(wide, ref, got.dtype)
    info = torch.finfo(got.dtype)
    # Unavoidable: devices may flush subnormal numbers to zero.
    flushed = info.tiny * info.eps if got.dtype is torch.float16 else info.tiny
    error = (torch.where(counted, (wide - ref).abs(), 0.0) - flushed).clamp_min(0.0)
    size = torch.where(ref.isfinite(), ref.abs(), 0.0)
    # Squares of huge and tiny numbers leave the range of float64: divide everything by the largest element.
    peak = float(size.max()) if size.numel() else 0.0
    if peak > 0:
        error, size = error / peak, size / peak
    has_rows = size.dim() > 0 and size.shape[-1] > 1
    whole_rms = size.square().mean().sqrt()
    row_rms = size.square().mean(-1, keepdim=True).sqrt() if has_rows else whole_rms
    # A row of zeros, or of one element, has no scale of its own: take the whole tensor's.
    scale = torch.where(row_rms > 0, row_rms, whole_rms)
    relative = torch.where(error > 0, error / scale, 0.0)
    relative = torch.where(strange, math.inf, relative)
    if bool(strange.any()):
        return Errors(math.inf, math.inf, relative, strange)
    largest = float(relative.max()) if relative.numel() else 0.0
    off, whole = float(error.norm()), float(size.norm())
    frobenius = 0.0 if off == 0.0 else off / whole if whole else math.inf
    return Errors(frobenius, largest, relative, strange)


def _strange(wide: torch.Tensor, ref: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return masks of elements whose inf or nan do not match, and of elements with a finite error."""
    finite = ref.isfinite()
    same = (wide == ref) | (wide.isnan() & ref.isnan())
    strange = (wide.isfinite() != finite) | (~finite & ~same)
    if not wide.is_complex():
        # Values beyond the range of the dtype become inf in honest code too.
        beyond = finite & (ref.abs() >= torch.finfo(dtype).max * (1 - TIERS[dtype].frobenius))
        strange &= ~(beyond & wide.isinf() & (wide.sign() == ref.sign()))
    return strange, finite & wide.isfinite()
