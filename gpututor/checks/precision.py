"""Precision: which operators ran in which floating type, and how much of the arithmetic ran in half precision."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from gpututor.checks.bounds import line_with_most, where
from gpututor.checks.model import Applies, Call, Check, Finding, Machine, Run
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.trace.events import DTYPES, HALVES, Event, Kind
from gpututor.trace.formatting import share

Types = str | tuple[str, ...]
WHY = "Half precision moves half the bytes and uses the fast units; sums and exponents need the range of float32."
ADVICE = (
    "`torch.autocast` picks a type for each operator. Outside of it, an operator runs in the type of its inputs: print"
    " their `dtype`."
)


def precision(
    by_name: Mapping[str, Types] | None = None,
    *,
    half_share: float | None = None,
    name: str = "precision",
    why: str = WHY,
    advice: str = ADVICE,
    on: Applies = "gpu",
) -> Check:
    """Kernels whose names match a pattern run in the type given, or in one of several; each pattern must match some.

    `half_share` is the least share, above 0 and at most 1, of the floating-point operations that run in float16 or
    bfloat16, among operators that multiply. A kernel ran in the wider of its first floating input and its first
    floating output. Raises `CourseError` for types and shares that cannot be, and when there is nothing to ask.
    """
    rules = [(pattern, _types(types, name)) for pattern, types in (by_name or {}).items()]
    if half_share is not None and not 0 < half_share <= 1:
        raise CourseError(f"check {name!r}: a share of {half_share}", "In checks.py, give one above 0, at most 1.")
    if not rules and half_share is None:
        raise CourseError(f"check {name!r}: nothing to ask", "In checks.py, give it {name: dtype} or half_share=.")

    def sentence(_: Machine) -> str:
        return "Each operator runs in the precision that it should"

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            kernels = [event for event in call.trace if event.kind is Kind.KERNEL and event.device != "cpu"]
            findings = (_wrong_type(run, call, kernels, pattern, types) for pattern, types in rules)
            finding = next((one for one in findings if one is not None), None)
            if finding is None and half_share is not None:
                finding = _too_little_half(run, call, kernels, half_share)
            if finding is not None:
                return finding
        return None

    return Check(name, sentence, find, (), why, advice, on)


def _types(types: Types, name: str) -> tuple[str, ...]:
    chosen = (types,) if isinstance(types, str) else tuple(types)
    for one in chosen or ("",):
        if one not in DTYPES[1:]:
            raise CourseError(
                f"check {name!r}: {one!r} is no floating type",
                "In checks.py, name types as PyTorch does, without `torch.`: float16, bfloat16, float32.",
            )
    return chosen


def _wrong_type(run: Run, call: Call, kernels: Sequence[Event], pattern: str, types: tuple[str, ...]) -> Finding | None:
    expected = f"{pattern} in {' or '.join(types)}"
    found = [event for event in kernels if fnmatchcase(event.name, pattern)]
    if not found:
        if _is_hidden(kernels):
            return _unknown(run, call, expected)
        return Finding(expected, f"no {pattern} ran on a device{run.which(call)}", run.line_of(call))
    wrong = [event for event in found if event.dtype not in types]
    if not wrong:
        return None
    counted = Counter(event.dtype or "no floating type" for event in wrong).most_common(3)
    how = ", ".join(f"{times:,} of {len(found):,} in {dtype}" for dtype, times in counted)
    return Finding(expected, f"{how}, {where(wrong)}{run.which(call)}", line_with_most(wrong) or run.line_of(call))


def _too_little_half(run: Run, call: Call, kernels: Sequence[Event], least: float) -> Finding | None:
    expected = f"at least {share(least)} of the arithmetic in half precision"
    if _is_hidden(kernels):
        return _unknown(run, call, expected)
    multiplying = [event for event in kernels if event.flops > 0]
    total = sum(event.flops for event in multiplying)
    if not total:
        return Finding(expected, f"no products, convolutions or attention ran{run.which(call)}", run.line_of(call))
    wide = [event for event in multiplying if event.dtype not in HALVES]
    half = 1 - sum(event.flops for event in wide) / total
    if half >= least - 1e-9:
        return None
    by_line: defaultdict[int | None, float] = defaultdict(float)
    for event in wide:
        by_line[event.line] += event.flops
    line = max(by_line, key=lambda one: by_line[one])
    place = f"most of the rest at line {line}" if line is not None else "the rest outside your file"
    got = f"{share(half)} of {total:,.0f} floating-point operations, {place}{run.which(call)}"
    return Finding(expected, got, line or run.line_of(call))


def _is_hidden(kernels: Sequence[Event]) -> bool:
    """On a real device nobody sees the operators of a graph's replay."""
    return any(event.name == "cuda graph" for event in kernels)


def _unknown(run: Run, call: Call, expected: str) -> Finding:
    return Finding(
        expected,
        f"nobody sees into the replay of a CUDA graph here{run.which(call)}",
        advice="Grade it on the virtual GPU, which sees each of its kernels.",
        status=Status.INCONCLUSIVE,
    )
