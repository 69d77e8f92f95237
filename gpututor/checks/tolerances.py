"""Tolerances of parity: the error that each dtype may have, and the error that a result has.

Two figures: the relative Frobenius error ‖out−ref‖/‖ref‖, and the largest error over the RMS of its row.
Measured over sizes from 4 to 4096: honest float32 stays under 3e-7, TF32 and float16 are at about 3e-4,
bfloat16 at 3e-3, nonsense above 0.28; so the tiers below part them by a decade or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class ToleranceGates:
    """How far an honest result may be off."""

    frobenius: float
    """‖out−ref‖/‖ref‖ at most."""
    largest: float
    """max |out−ref| over the RMS of its row of ref, at most."""

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
"""By dtype; results in TF32 are judged as float16, all others must be equal."""
OWN_ERROR = 3.0
"""A chain of operators may be off as far as this many times its reference is in the same dtype."""
WIDEST = ToleranceGates(0.1, 1.0)
"""Calibration goes no further: nonsense begins at 0.28."""


@dataclass(frozen=True)
class Tolerance:
    """What a check of parity compares with, for whoever examines the tolerance itself."""

    reference: Callable[..., Any]
    times: float = 1.0
    inside: torch.dtype | None = None
    """The lowest precision that may be used inside."""


@dataclass(frozen=True)
class Errors:
    """How far a result is from its reference."""

    frobenius: float
    largest: float
    relative: torch.Tensor
    """The error of each element over the RMS of its row; inf where only one of the two is finite."""
    strange: torch.Tensor
    """Where one is inf or nan and the other is not, or is another one."""

    def within(self, gates: ToleranceGates) -> bool:
        return self.frobenius <= gates.frobenius and self.largest <= gates.largest

    def times(self, gates: ToleranceGates) -> float:
        """How many times too far it is, by the gate that it breaks most."""
        return max(self.frobenius / gates.frobenius, self.largest / gates.largest)


def gates_for_dtype(
    dtype: torch.dtype, own: Errors | None, times: float = 1.0, inside: torch.dtype | None = None
) -> ToleranceGates:
    """The gates for a result of a floating `dtype`; `own` is the error of the reference in that dtype, where known."""
    gates = TIERS[dtype].or_wider(TIERS[inside]) if inside is not None else TIERS[dtype]
    if own is not None and math.isfinite(own.frobenius) and math.isfinite(own.largest):
        calibrated = ToleranceGates(
            min(OWN_ERROR * own.frobenius, WIDEST.frobenius), min(OWN_ERROR * own.largest, WIDEST.largest)
        )
        gates = gates.or_wider(calibrated)
    return gates.widened(times)


def errors_of(got: torch.Tensor, ref: torch.Tensor) -> Errors:
    """How far `got`, of a dtype in `TIERS`, is from `ref`, which is wider. Both have one shape; nothing broadcasts."""
    if got.shape != ref.shape:
        raise ValueError(f"shapes {tuple(got.shape)} and {tuple(ref.shape)} cannot be compared")
    wide = got.to(torch.complex128 if got.is_complex() or ref.is_complex() else torch.float64)
    ref = ref.to(wide.dtype)
    strange, counted = _strange(wide, ref, got.dtype)
    error = torch.where(counted, (wide - ref).abs(), 0.0)
    error = (error - _unavoidable(got.dtype)).clamp_min(0.0)
    size = torch.where(ref.isfinite(), ref.abs(), 0.0)
    # Squares of huge and tiny numbers leave the range of float64: everything is measured by the largest element.
    peak = float(size.max()) if size.numel() else 0.0
    if peak > 0:
        error, size = error / peak, size / peak
    has_rows = size.dim() > 0 and size.shape[-1] > 1
    whole_rms = size.square().mean().sqrt()
    row_rms = size.square().mean(-1, keepdim=True).sqrt() if has_rows else whole_rms
    # A row of zeros, or of one element, has no scale of its own: the whole tensor's is taken.
    scale = torch.where(row_rms > 0, row_rms, whole_rms)
    relative = torch.where(error > 0, error / scale, 0.0)
    relative = torch.where(strange, math.inf, relative)
    if bool(strange.any()):
        return Errors(math.inf, math.inf, relative, strange)
    largest = float(relative.max()) if relative.numel() else 0.0
    return Errors(_ratio(error, size), largest, relative, strange)


def _strange(wide: torch.Tensor, ref: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Where inf and nan do not match, and which elements have an error in numbers."""
    finite = ref.isfinite()
    same = (wide == ref) | (wide.isnan() & ref.isnan())
    strange = (wide.isfinite() != finite) | (~finite & ~same)
    if not wide.is_complex():
        # What the dtype cannot hold becomes inf in honest code too.
        beyond = finite & (ref.abs() >= torch.finfo(dtype).max * (1 - TIERS[dtype].frobenius))
        strange &= ~(beyond & wide.isinf() & (wide.sign() == ref.sign()))
    return strange, finite & wide.isfinite()


def _unavoidable(dtype: torch.dtype) -> float:
    """An error of any honest result: devices may flush to zero what is below the smallest normal number."""
    info = torch.finfo(dtype)
    return info.tiny * info.eps if dtype is torch.float16 else info.tiny


def _ratio(error: torch.Tensor, size: torch.Tensor) -> float:
    one, other = float(error.norm()), float(size.norm())
    if one == 0.0:
        return 0.0
    return one / other if other else math.inf
