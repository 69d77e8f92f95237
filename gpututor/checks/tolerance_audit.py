"""Do the tolerances of an exercise reject nonsense? Tried for each check of values, on inputs as they are drawn.

For each part of the reference's result these are tried in its place: zeros, ones, its mean, an unchanged input of the
same shape, the transposed result, and the result of inputs in the next lower precision. Each has to be off by ten times
what the check allows (the next lower precision by two times at float16), or to be equal to the reference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpututor.checks.model import Check, named, run_reference
from gpututor.checks.parity import OwnDtype, leaves
from gpututor.checks.tolerances import TIERS, Tolerance, errors_of, gates_for_dtype

LEAST = 10.0
"""How many times the gates nonsense has to be off."""
LEAST_LOWER = {torch.float16: 2.0}
"""The same for the next lower precision, where it is another number."""
NEXT_LOWER = {torch.float64: torch.float32, torch.float32: torch.float16, torch.float16: torch.bfloat16}
LOWER = "the next lower precision"


@dataclass(frozen=True)
class Nonsense:
    """One kind of wrong result in the place of one part of the right one, over all cases."""

    check: str
    path: str
    kind: str
    """`zeros`, `the unchanged 'x'`, …"""
    least: float
    times: float | None
    """How many times the gates it is off in the case that rejects it most; None: it is equal to the reference."""
    case: int = 0
    """The case that rejects it most."""

    @property
    def excused(self) -> bool:
        """No check of values can tell it from the right result; another check has to."""
        return self.times is None

    @property
    def weak(self) -> bool:
        """It would be accepted, or nearly."""
        return self.times is not None and self.times < self.least

    @property
    def sentence(self) -> str:
        place = f"{self.check}: {self.kind} for {named(self.path)}"
        if self.times is None:
            return f"{place} is the right result: another check has to reject it"
        if self.times <= 1:
            return f"{place} would be accepted"
        off = f"only {self.times:.1f} times off what is allowed; {self.least:.0f} times are wanted"
        return f"{place} is {off}. Case {self.case} rejects it most"


def tolerances(checks: Sequence[Check], cases: Sequence[dict[str, Any]]) -> tuple[Nonsense, ...]:
    """What nonsense does to the checks of values among `checks`; `cases` are as `draw` returned them.

    The tolerances are sound when none of it is `weak`. Raises `CourseError` when a reference breaks.
    """
    found: dict[tuple[str, str, str], Nonsense] = {}
    for check in checks:
        if check.tolerance is None:
            continue
        for case, drawn in enumerate(cases):
            for one in _tried(check.name, check.tolerance, drawn):
                key = one.check, one.path, one.kind
                other = found.get(key, one)
                found[key] = replace(one, case=case) if _off(one) >= _off(other) else other
    return tuple(found.values())


def weakest(tried: Iterable[Nonsense]) -> tuple[Nonsense, ...]:
    """Return each kind of nonsense once: as it is rejected least, over all seeds."""
    found: dict[tuple[str, str, str], Nonsense] = {}
    for one in tried:
        key = one.check, one.path, one.kind
        found[key] = min(found.get(key, one), one, key=_off)
    return tuple(found.values())


def _off(one: Nonsense) -> float:
    return -1.0 if one.times is None else one.times


def _tried(check: str, tolerance: Tolerance, drawn: dict[str, Any]) -> Iterator[Nonsense]:
    own = OwnDtype(tolerance, drawn)
    for path, ref in leaves(run_reference(tolerance.reference, drawn, in_float64=True)).items():
        dtype = own.dtype(path) or ref.dtype
        for kind, wrong, least in _wrong_results(tolerance, drawn, path, ref, dtype):
            yield Nonsense(check, path, kind, least, _times_off(wrong.to(dtype), ref, dtype, tolerance, own, path))


def _times_off(
    wrong: torch.Tensor, ref: torch.Tensor, dtype: torch.dtype, tolerance: Tolerance, own: OwnDtype, path: str
) -> float | None:
    if torch.equal(wrong, ref.to(dtype)):
        return None
    if dtype not in TIERS:
        return math.inf
    gates = gates_for_dtype(dtype, own.errors(path, ref), tolerance.times, tolerance.inside)
    return errors_of(wrong, ref).times(gates)


def _wrong_results(
    tolerance: Tolerance, drawn: dict[str, Any], path: str, ref: torch.Tensor, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor, float]]:
    """(what it is, the tensor, how many times it has to be off)."""
    yield "zeros", torch.zeros_like(ref), LEAST
    yield "ones", torch.ones_like(ref), LEAST
    if ref.numel():
        mean = ref.to(torch.complex128 if ref.is_complex() else torch.float64).mean()
        yield "the mean", torch.full(ref.shape, mean.item(), dtype=mean.dtype), LEAST
    for name, tensor in leaves(drawn).items():
        if tensor.shape == ref.shape and (ref.is_complex() or not tensor.is_complex()):
            yield f"the unchanged {name!r}", tensor, LEAST
    if ref.dim() >= 2:
        yield "the transposed result", ref.mT.reshape(ref.shape), LEAST
    allowed = _lowest(dtype, tolerance.inside)
    lower = NEXT_LOWER.get(allowed)
    if lower is not None:
        rounded = {name: _rounded(value, lower) for name, value in drawn.items()}
        less = leaves(run_reference(tolerance.reference, rounded, in_float64=True)).get(path)
        if less is not None and less.shape == ref.shape:
            yield LOWER, less.to(lower).to(ref.dtype), LEAST_LOWER.get(allowed, LEAST)


def _lowest(dtype: torch.dtype, inside: torch.dtype | None) -> torch.dtype:
    known = [one for one in (dtype, inside) if one in TIERS]
    return max(known, key=lambda one: TIERS[one].frobenius, default=dtype)


def _rounded(value: Any, lower: torch.dtype) -> Any:
    """The same inputs with floating tensors as `lower` holds them."""
    match value:
        case torch.Tensor() if value.is_floating_point():
            return value.detach().to(lower).to(value.dtype).requires_grad_(value.requires_grad)
        case list():
            return [_rounded(part, lower) for part in value]
        case tuple():
            return tuple(_rounded(part, lower) for part in value)
        case dict():
            return {key: _rounded(part, lower) for key, part in value.items()}
    return value
