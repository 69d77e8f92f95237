"""Audit of tolerances: does each check of values reject nonsense, on inputs as they are drawn?

Each part of the reference's result is replaced with zeros, ones, its mean, and an unchanged input of the same shape. It
is also replaced with the transposed result, and with the result of inputs in the next lower precision. The error of
each must be ten times what the check allows, unless it equals the reference. For the next lower precision at float16,
twice is enough.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpututor.checks.model import Check, run_reference
from gpututor.checks.parity import OwnDtype, leaves
from gpututor.checks.tolerances import TIERS, Tolerance, errors_of, gates_for_dtype
from gpututor.checks.trees import map_tensors, part_name

LEAST = 10.0
"""Smallest error of nonsense, as a multiple of the gates."""
LEAST_LOWER = {torch.float16: 2.0}
"""Smaller multiples for the next lower precision, by dtype."""
NEXT_LOWER = {torch.float64: torch.float32, torch.float32: torch.float16, torch.float16: torch.bfloat16}
LOWER = "the next lower precision"


@dataclass(frozen=True)
class Nonsense:
    """A wrong result that replaces one part of the right result, tried in all cases."""

    check: str
    path: str
    part: str
    """Name of the part at `path`, such as `result['weights'][0]`."""
    kind: str
    """`zeros`, `the unchanged 'x'`, …"""
    least: float
    times: float | None
    """Error as a multiple of the gates in the case that rejects it most; None if it equals the reference."""
    case: int = 0
    """Number of the case that rejects it most."""

    @property
    def excused(self) -> bool:
        """True if it equals the right result, so that another check has to reject it."""
        return self.times is None

    @property
    def weak(self) -> bool:
        """True if a check accepts it, or almost accepts it."""
        return self.times is not None and self.times < self.least

    @property
    def sentence(self) -> str:
        place = f"{self.check}: {self.kind} for {self.part}"
        if self.times is None:
            return f"{place} is the right result: another check has to reject it"
        if self.times <= 1:
            return f"{place} would be accepted"
        off = f"only {self.times:.1f} times off what is allowed; {self.least:.0f} times are required"
        return f"{place} is {off}. Case {self.case} rejects it most"


def tolerances(checks: Sequence[Check], cases: Sequence[dict[str, Any]]) -> tuple[Nonsense, ...]:
    """Try nonsense on the checks of values among `checks`; `cases` are inputs as `draw` returned them.

    The tolerances are sound if no returned `Nonsense` is `weak`. Raises `CourseError` if a reference fails.
    """
    strongest: dict[tuple[str, str, str], Nonsense] = {}
    examined = [(check.name, check.tolerance) for check in checks if check.tolerance is not None]
    for (name, tolerance), (case, drawn) in itertools.product(examined, enumerate(cases)):
        for tried in _tried(name, tolerance, drawn):
            key = tried.check, tried.path, tried.kind
            if key not in strongest or _off(tried) >= _off(strongest[key]):
                strongest[key] = replace(tried, case=case)
    return tuple(strongest.values())


def weakest(tried: Iterable[Nonsense]) -> tuple[Nonsense, ...]:
    """Return each kind of nonsense once, with its smallest error over all seeds."""
    smallest: dict[tuple[str, str, str], Nonsense] = {}
    for nonsense in tried:
        key = nonsense.check, nonsense.path, nonsense.kind
        smallest[key] = min(smallest.get(key, nonsense), nonsense, key=_off)
    return tuple(smallest.values())


def _off(nonsense: Nonsense) -> float:
    return -1.0 if nonsense.times is None else nonsense.times


def _tried(check: str, tolerance: Tolerance, drawn: dict[str, Any]) -> Iterator[Nonsense]:
    own = OwnDtype(tolerance, drawn)
    whole = run_reference(tolerance.reference, drawn, in_float64=True)
    for path, ref in leaves(whole).items():
        dtype = own.dtype(path) or ref.dtype
        for kind, wrong, least in _wrong_results(tolerance, drawn, path, ref, dtype):
            times = _times_off(wrong.to(dtype), ref, dtype, tolerance, own, path)
            yield Nonsense(check, path, part_name(path, whole), kind, least, times)


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
    """Yield (kind, tensor, smallest multiple of the gates)."""
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
    known = [kind for kind in (dtype, tolerance.inside) if kind in TIERS]
    allowed = max(known, key=lambda kind: TIERS[kind].frobenius, default=dtype)
    lower = NEXT_LOWER.get(allowed)
    if lower is not None:
        rounded = map_tensors(drawn, lambda tensor: _round(tensor, lower))
        less = leaves(run_reference(tolerance.reference, rounded, in_float64=True)).get(path)
        if less is not None and less.shape == ref.shape:
            yield LOWER, less.to(lower).to(ref.dtype), LEAST_LOWER.get(allowed, LEAST)


def _round(tensor: torch.Tensor, lower: torch.dtype) -> torch.Tensor:
    """Return a floating tensor with the values that `lower` can hold."""
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().to(lower).to(tensor.dtype).requires_grad_(tensor.requires_grad)
