"""Precision: the floating type of each operator, and the share of the arithmetic in half precision."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from gpututor.checks.bounds import describe_lines, line_with_most
from gpututor.checks.model import Applies, Call, Check, Finding, Run, first_finding, in_each_call
from gpututor.errors import CourseError
from gpututor.trace.events import DTYPES, GRAPH_REPLAY, HALVES, Event, Kind
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
    """Check the floating type, or types, of kernels whose names match a pattern; each pattern must match some.

    A pattern may give alternatives: `aten::_*softmax|aten::exp`. A kernel's type is the wider of its first floating
    input and its first floating output. `half_share` is the least share, above 0 and at most 1, of floating-point
    operations in float16 or bfloat16, among operators that multiply. Raises `CourseError` for unknown types and
    impossible shares, and if there is nothing to check.
    """
    rules = [(pattern, _types(types, name)) for pattern, types in (by_name or {}).items()]
    if half_share is not None and not 0 < half_share <= 1:
        raise CourseError(f"check {name!r}: a share of {half_share}", "In checks.py, give a share above 0, at most 1.")
    if not rules and half_share is None:
        raise CourseError(f"check {name!r}: nothing to check", "In checks.py, give it {name: dtype} or half_share=.")

    def find(run: Run, call: Call) -> Finding | None:
        kernels = [event for event in call.trace if event.kind is Kind.KERNEL and event.device != "cpu"]
        by_type = (_wrong_type(run, call, kernels, pattern, types) for pattern, types in rules)
        return first_finding(by_type) or (half_share and _too_little_half(run, call, kernels, half_share)) or None

    sentence = "Each operator runs in the right precision"
    return Check(name, lambda _: sentence, in_each_call(find), (), why, advice, on)


def _types(types: Types, name: str) -> tuple[str, ...]:
    chosen = (types,) if isinstance(types, str) else tuple(types)
    for dtype in chosen or ("",):
        if dtype not in DTYPES[1:]:
            raise CourseError(
                f"check {name!r}: {dtype!r} is not a floating type",
                "In checks.py, name types as PyTorch does, without `torch.`: float16, bfloat16, float32.",
            )
    return chosen


def _wrong_type(run: Run, call: Call, kernels: Sequence[Event], pattern: str, types: tuple[str, ...]) -> Finding | None:
    expected = f"{pattern} in {' or '.join(types)}"
    matching = [event for event in kernels if any(fnmatchcase(event.name, part) for part in pattern.split("|"))]
    if not matching:
        if _is_hidden(kernels):
            return _hidden(run, call, expected)
        return run.finding(call, expected, f"no {pattern} ran on a device")
    wrong = [event for event in matching if event.dtype not in types]
    if not wrong:
        return None
    counted = Counter(event.dtype or "no floating type" for event in wrong).most_common(3)
    how = ", ".join(f"{times:,} of {len(matching):,} in {dtype}" for dtype, times in counted)
    return run.finding(call, expected, f"{how}, {describe_lines(wrong)}", line_with_most(wrong))


def _too_little_half(run: Run, call: Call, kernels: Sequence[Event], least: float) -> Finding | None:
    expected = f"at least {share(least)} of the arithmetic in half precision"
    if _is_hidden(kernels):
        return _hidden(run, call, expected)
    multiplying = [event for event in kernels if event.flops > 0]
    total = sum(event.flops for event in multiplying)
    if not total:
        return run.finding(call, expected, "no products, convolutions or attention ran")
    wide = [event for event in multiplying if event.dtype not in HALVES]
    half = 1 - sum(event.flops for event in wide) / total
    if half >= least - 1e-9:
        return None
    by_line: defaultdict[int | None, float] = defaultdict(float)
    for event in wide:
        by_line[event.line] += event.flops
    line = max(by_line, key=lambda line: by_line[line])
    place = f"most of the rest at line {line}" if line is not None else "the rest outside your file"
    return run.finding(call, expected, f"{share(half)} of {total:,.0f} floating-point operations, {place}", line)


def _is_hidden(kernels: Sequence[Event]) -> bool:
    """Return True if a graph was replayed on a real device, whose trace has no operators of the replay."""
    return any(event.name == GRAPH_REPLAY for event in kernels)


def _hidden(run: Run, call: Call, expected: str) -> Finding:
    got = "the kernels of a CUDA graph's replay are not visible here"
    return run.inconclusive(call, expected, got, "Grade it on the virtual GPU, which sees each of its kernels.")
