"""Parity: the result has the values of a float64 reference on the CPU, as closely as its dtype allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from gpututor.checks.core import Applies, Check, Finding, Run, named
from gpututor.checks.parity_causes import cause_of
from gpututor.checks.parity_gates import TIERS, Errors, Tolerance, errors_of, gates_for
from gpututor.checks.references import Reference, run_reference
from gpututor.checks.structure import describe
from gpututor.checks.trees import as_tree, joined
from gpututor.errors import CourseError
from gpututor.wire.observed import ObservedTensor

WHY = "Fast and wrong is worthless: the result must be what the CPU says, within what its dtype can hold."


@dataclass(frozen=True)
class Disagreement:
    """How one tensor differs from its reference."""

    expected: str
    got: str
    advice: str

    @property
    def cause_alone(self) -> str:
        """The advice without the figure, which `got` says already."""
        figure, colon, cause = self.advice.partition(": ")
        return cause[0].upper() + cause[1:] if colon and figure.startswith("relative error") else self.advice


def parity(
    reference: Reference,
    *,
    times: float = 1.0,
    inside: torch.dtype | None = None,
    name: str = "parity",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Every tensor of the result agrees with the reference's, which is called in float64.

    The gates are those of the result's dtype, or three times the error that the reference itself has in that dtype on
    the CPU, where that is more. `inside` is a lower precision that may be used inside, such as `torch.float16` (also
    for TF32); `times` widens the gates.
    """
    check_widening("parity", times, inside)
    tolerance = Tolerance(reference, times, inside)

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            wanted = leaves(run_reference(reference, call.drawn, in_float64=True))
            if not wanted:
                raise CourseError(f"{name}: the reference returns no tensors", "Compare plain values with `value`.")
            got = leaves(call.output)
            if wanted.keys() != got.keys():
                return Finding(describe(wanted), describe(call.output), run.line_of(call))
            own = OwnDtype(tolerance, call.drawn)
            for path, ref in wanted.items():
                found = disagreement(got[path], ref, times, own=own, path=path)
                if found is not None:
                    # An author's advice takes the place of the cause, which must not be lost.
                    cause = f". {found.cause_alone}" if advice and found.advice else ""
                    return Finding(
                        expected=found.expected,
                        got=f"{named(path)}: {found.got}{run.which(call)}{cause}",
                        line=run.line_of(call),
                        advice=found.advice,
                    )
        return None

    return Check(
        name,
        lambda _: "The values agree with the CPU's",
        find,
        ("structure",),
        why,
        advice,
        on,
        results_only=True,
        tolerance=tolerance,
        kind="values",
    )


def check_widening(word: str, times: float, inside: torch.dtype | None) -> None:
    """Raise `CourseError` for tolerances that cannot be."""
    if not 0 < times < math.inf or (inside is not None and inside not in TIERS):
        raise CourseError(f"{word}: times={times}, inside={inside}", "Use times above 0, and a floating dtype.")


class OwnDtype:
    """The reference's result in the dtype of the inputs, made when it is first asked for."""

    def __init__(self, tolerance: Tolerance, drawn: dict[str, Any]) -> None:
        self.tolerance = tolerance
        self._drawn = drawn
        self._made: dict[str, torch.Tensor] | None = None

    def dtype(self, path: str) -> torch.dtype | None:
        """None where the CPU cannot do it in that dtype."""
        made = self._results().get(path)
        return None if made is None else made.dtype

    def errors(self, path: str, ref: torch.Tensor) -> Errors | None:
        """How far it is from `ref`; None where that says nothing."""
        made = self._results().get(path)
        comparable = made is not None and made.dtype in TIERS and made.shape == ref.shape
        return errors_of(made, ref) if made is not None and comparable else None

    def _results(self) -> dict[str, torch.Tensor]:
        if self._made is None:
            try:
                self._made = leaves(run_reference(self.tolerance.reference, self._drawn, in_float64=False))
            except CourseError:
                self._made = {}  # such as an operator that the CPU lacks in half precision: the tiers stand
        return self._made


def disagreement(
    got: torch.Tensor, ref: torch.Tensor, times: float = 1.0, *, own: OwnDtype | None = None, path: str = ""
) -> Disagreement | None:
    """How `got` (any dtype) fails to be `ref` (float64, or exact), or None. Never broadcasts: both have one shape."""
    if got.shape != ref.shape:
        return Disagreement(f"shape {tuple(ref.shape)}", f"shape {tuple(got.shape)}", "")
    if (got.dtype in TIERS) != (ref.dtype in TIERS) or (ref.is_complex() and not got.is_complex()):
        kind = "complex" if ref.is_complex() else "floating-point" if ref.dtype in TIERS else "whole or boolean"
        return Disagreement(f"{kind} values", f"values of {got.dtype}", "Look at the dtypes of each step.")
    if got.dtype not in TIERS:
        wrong = got != ref
        return _listed(got, ref, wrong, "exactly equal values", "", "") if bool(wrong.any()) else None
    errors = errors_of(got, ref)
    inside = own.tolerance.inside if own is not None else None
    # A result in a lower precision than the reference's is judged by the reference's dtype.
    lower = own is not None and TIERS[got.dtype].frobenius > TIERS[torch.float32].frobenius
    dtype = _stricter(got.dtype, own.dtype(path) if own is not None and lower else None)
    gates = gates_for(dtype, None, times, inside)
    if errors.within(gates):
        return None
    gates = gates_for(dtype, own.errors(path, ref) if own is not None else None, times, inside)
    if errors.within(gates):
        return None
    advice = cause_of(got, ref, errors, gates, dtype)
    if bool(errors.strange.any()):
        return _listed(got, ref, errors.strange, "inf and nan only where the reference has them", "", advice)
    wanted = f"a relative error of at most {gates.frobenius:.0e} for {dtype}"
    worst = errors.relative > max(gates.largest, errors.largest / 10)
    if not bool(worst.any()):  # none by itself is far off, all together are
        worst = errors.relative > errors.largest / 10
    if errors.frobenius <= gates.frobenius:
        wanted = f"no error above {gates.largest:.0e} of its row's size for {dtype}"
    return _listed(got, ref, worst, wanted, f"relative error {errors.frobenius:.1e}; ", advice)


def _stricter(dtype: torch.dtype, other: torch.dtype | None) -> torch.dtype:
    known = [one for one in (dtype, other) if one in TIERS]
    return min(known, key=lambda one: TIERS[one].frobenius)


def _listed(
    got: torch.Tensor, ref: torch.Tensor, wrong: torch.Tensor, wanted: str, prefix: str, advice: str
) -> Disagreement:
    """Words with the first wrong elements: index, got, expected."""
    places = wrong.nonzero()[:3].tolist()
    shown = [f"at {place} {_number(got[tuple(place)])}, not {_number(ref[tuple(place)])}" for place in places]
    total = int(wrong.sum())
    off = f"{total:,} of {wrong.numel():,} elements are off" if wrong.numel() > 1 else "the only element"
    return Disagreement(wanted, f"{prefix}{'; '.join(shown)} ({off})", advice)


def _number(element: torch.Tensor) -> str:
    return f"{element.item():.6g}" if element.dtype is not torch.bool else str(element.item())


def leaves(result: Any) -> dict[str, torch.Tensor]:
    """Every tensor and array of a result, as a CPU tensor by path; of a module those that a state dict holds."""
    found: dict[str, torch.Tensor] = {}
    waiting: list[tuple[str, Any]] = [("", as_tree(result))]
    while waiting:
        path, item = waiting.pop()
        match item:
            case ObservedTensor():
                found[path] = item.values
            case torch.Tensor():
                found[path] = item.detach()
            case dict():
                waiting += [(joined(path, key), part) for key, part in item.items()]
            case list() | tuple():
                waiting += [(joined(path, index), part) for index, part in enumerate(item)]
            case _ if type(item).__name__ == "ndarray":
                found[path] = torch.from_numpy(item)
    return dict(sorted(found.items()))
