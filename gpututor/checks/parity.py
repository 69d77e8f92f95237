"""Parity: the result has the values of a float64 reference on the CPU, as closely as its dtype allows.

Two scale-free gates: the relative Frobenius error ‖out−ref‖/‖ref‖, and the largest error over the RMS of its row.
Measured over sizes from 4 to 4096: honest float32 stays under 3e-7, TF32 and float16 are at about 3e-4,
bfloat16 at 3e-3, nonsense above 0.28; so the tiers below part them by a decade or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gpututor.checks.core import Applies, Check, Finding, Run, named, tensors_by_path
from gpututor.checks.references import Reference, run_reference
from gpututor.checks.structure import describe
from gpututor.checks.trees import as_tree
from gpututor.wire.observed import ObservedArray

WHY = "Fast and wrong is worthless: the result must be what the CPU says, within what its dtype can hold."


@dataclass(frozen=True)
class Tier:
    """How far an honest result of one dtype may be off."""

    frobenius: float
    """‖out−ref‖/‖ref‖ at most."""
    largest: float
    """max |out−ref| over the RMS of its row of ref, at most."""


TIERS = {
    torch.float64: Tier(1e-12, 1e-11),
    torch.complex128: Tier(1e-12, 1e-11),
    torch.float32: Tier(1e-5, 1e-4),
    torch.complex64: Tier(1e-5, 1e-4),
    torch.float16: Tier(1e-3, 1e-2),
    torch.bfloat16: Tier(1e-2, 1e-1),
}


@dataclass(frozen=True)
class Disagreement:
    """How one tensor differs from its reference."""

    expected: str
    got: str
    advice: str


def parity(
    reference: Reference,
    *,
    times: float = 1.0,
    name: str = "parity",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Every tensor of the result agrees with the reference's, which is called in float64; `times` widens both gates."""

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            wanted = _leaves(run_reference(reference, call.drawn, in_float64=True))
            got = _leaves(call.output)
            if wanted.keys() != got.keys():
                return Finding(describe(wanted), describe(call.output), run.line_of(call))
            for path, ref in wanted.items():
                found = disagreement(got[path], ref, times)
                if found is not None:
                    return Finding(
                        expected=found.expected,
                        got=f"{named(path)}: {found.got}{run.which(call)}",
                        line=run.line_of(call),
                        advice=found.advice,
                    )
        return None

    return Check(
        name, lambda _: "The values agree with the CPU's", find, ("structure",), why, advice, on, results_only=True
    )


def disagreement(got: torch.Tensor, ref: torch.Tensor, times: float = 1.0) -> Disagreement | None:
    """How `got` (any dtype) fails to be `ref` (float64, or exact), or None. Never broadcasts: both have one shape."""
    if got.shape != ref.shape:
        return Disagreement(f"shape {tuple(ref.shape)}", f"shape {tuple(got.shape)}", "")
    tier = TIERS.get(got.dtype)
    if tier is None:
        wrong = got != ref.to(got.dtype)
        return _listed(got, ref, wrong, "exactly equal values", "") if bool(wrong.any()) else None
    wide = got.to(torch.complex128 if got.is_complex() else torch.float64)
    ref = ref.to(wide.dtype)
    strange = (wide.isfinite() != ref.isfinite()) | (~ref.isfinite() & ~_same_non_finite(wide, ref))
    if bool(strange.any()):
        return _listed(got, ref, strange, "inf and nan only where the reference has them", "")
    finite = ref.isfinite()
    error = torch.where(finite, (wide - ref).abs(), 0.0)
    size = torch.where(finite, ref.abs(), 0.0)
    frobenius = _ratio(error.norm(), size.norm())
    whole_rms = size.square().mean().sqrt()
    has_rows = size.dim() > 0 and size.shape[-1] > 1
    row_rms = size.square().mean(-1, keepdim=True).sqrt() if has_rows else whole_rms
    # A row of zeros, or of one element, has no scale of its own: the whole tensor's is taken.
    scale = torch.where(row_rms > 0, row_rms, whole_rms)
    relative = torch.where(error > 0, error / scale.clamp_min(torch.finfo(torch.float64).tiny), 0.0)
    largest = float(relative.max()) if relative.numel() else 0.0
    if frobenius <= tier.frobenius * times and largest <= tier.largest * times:
        return None
    wanted = f"a relative error of at most {tier.frobenius * times:.0e} for {got.dtype}"
    worst = relative > max(tier.largest * times, largest / 10)
    return _listed(got, ref, worst, wanted, f"relative error {frobenius:.1e}; ", _cause(frobenius, got.dtype))


def _same_non_finite(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _ratio(error: torch.Tensor, size: torch.Tensor) -> float:
    if float(error) == 0.0:
        return 0.0
    return float(error / size) if float(size) else float("inf")


def _cause(frobenius: float, dtype: torch.dtype) -> str:
    """What an error of this size usually comes from."""
    if dtype in (torch.float16, torch.bfloat16) or frobenius > 0.1:
        return "An error of this size means another computation: look at the operation, its order and its indices."
    if 5e-5 < frobenius < 1e-3:
        return "An error of this size looks like half precision or TF32 somewhere inside."
    if 1e-3 <= frobenius < 2e-2:
        return "An error of this size looks like bfloat16 somewhere inside."
    return "The values are nearly right: look for a step in a lower precision, or a part left out."


def _listed(
    got: torch.Tensor, ref: torch.Tensor, wrong: torch.Tensor, wanted: str, prefix: str, advice: str = ""
) -> Disagreement:
    """Words with the first wrong elements: index, got, expected."""
    places = wrong.nonzero()[:3].tolist()
    shown = [f"at {place} {got[tuple(place)].item():.6g}, not {ref[tuple(place)].item():.6g}" for place in places]
    total = int(wrong.sum())
    return Disagreement(wanted, f"{prefix}{'; '.join(shown)} ({total:,} of {wrong.numel():,} elements are off)", advice)


def _leaves(result: Any) -> dict[str, torch.Tensor]:
    """Every tensor and array of a result, as a CPU tensor by path."""
    if isinstance(result, ObservedArray):
        return {"": result.values}
    observed = {path: tensor.values for path, tensor in tensors_by_path(result).items()}
    if observed:
        return observed
    found: dict[str, torch.Tensor] = {}
    waiting: list[tuple[str, Any]] = [("", as_tree(result))]
    while waiting:
        path, item = waiting.pop()
        match item:
            case torch.Tensor():
                found[path] = item.detach()
            case dict():
                waiting += [(f"{path}.{key}" if path else str(key), part) for key, part in item.items()]
            case list() | tuple():
                waiting += [(f"{path}.{index}" if path else str(index), part) for index, part in enumerate(item)]
            case _ if type(item).__name__ == "ndarray":
                found[path] = torch.from_numpy(item)
    return dict(sorted(found.items()))
