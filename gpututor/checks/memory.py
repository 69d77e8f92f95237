"""Memory: the peak that a call holds on a device, and memory that remains after its result is dropped."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpututor.checks.bounds import Amount, parse_bounds
from gpututor.checks.model import Applies, Call, Check, Finding, Machine, Run, first_finding
from gpututor.errors import CourseError
from gpututor.trace.events import Event, Kind
from gpututor.trace.formatting import exact_size, size

WHY = "A device's memory is small. What a call holds at its peak decides how large a model or a batch can be."
PEAK_ADVICE = "Drop tensors that you no longer need before you create the next; work in place, or in smaller pieces."
LEAK_ADVICE = (
    "Something still refers to these tensors: a list, a global or a closure. Keep `.item()` or `.detach()` only."
)
_CALLS = 3


def memory(
    *,
    peak: Amount | None = None,
    left: Amount | None = None,
    peak_ratio: float | None = None,
    baseline: str = "baseline.py",
    name: str = "memory",
    why: str = WHY,
    advice: str = "",
    on: Applies = "gpu",
) -> Check:
    """Check the bytes that tensors hold on a device, as its allocator counts them, on the device that holds most.

    `peak` limits the peak of a call above the memory held before it. `left` concerns the memory that remains after the
    result is dropped. It limits what the last of three calls with equal inputs adds to that memory. Each is a maximum,
    (low, high) or a function of (drawn, machine). `peak_ratio` is the largest peak as a multiple of the baseline's
    peak. `baseline` is a file of the exercise's folder that defines the same function. Raises `CourseError` if there is
    nothing to check.
    """
    if peak is None and left is None and peak_ratio is None:
        raise CourseError(f"check {name!r}: nothing to check", "In checks.py, give it peak=, left= or peak_ratio=.")
    if peak_ratio is not None and not 0 < peak_ratio < 1e6:
        raise CourseError(f"check {name!r}: a ratio of {peak_ratio}", "In checks.py, give a number such as 1.2.")

    sentence = "A call leaves nothing behind in memory"
    if peak is not None or peak_ratio is not None:
        sentence = "It holds no more memory at once than it needs"
        sentence += ", and nothing stays behind" if left is not None else ""

    def find(run: Run) -> Finding | None:
        return first_finding(
            finding for position, calls in enumerate(run.repetitions) for finding in findings(run, position, calls)
        )

    def findings(run: Run, position: int, calls: Sequence[Call]) -> Iterator[Finding | None]:
        if peak is not None:
            yield _over(run, calls, _limits(peak, calls[0], run.machine, name))
        if peak_ratio is not None:
            yield _over_baseline(run, position, calls, peak_ratio, baseline)
        if left is not None:
            yield _leak(run, calls, _limits(left, calls[0], run.machine, name))

    def measured(run: Run) -> str:
        peaks = [_peak(_judged(run, calls)) for calls in run.repetitions if _has_peaks(run.machine)]
        known = [peak[1] for peak in peaks if peak is not None]
        return f"{size(max(known))} at the peak" if known else ""

    repeats, wants = (_CALLS, ("left",)) if left is not None else (2, ())
    baselines = () if peak_ratio is None else (baseline,)
    check = Check(name, lambda _: sentence, find, (), why, advice, on, measured=measured)
    return replace(check, repeats=repeats, wants=wants, baselines=baselines)


def _limits(amount: Amount, call: Call, machine: Machine, name: str) -> tuple[int, int]:
    """Return (low, high); a number alone is the upper limit."""
    low, high = parse_bounds(amount, call, machine, name)
    return (0, high) if low == high else (low, high)


def _judged(run: Run, calls: Sequence[Call]) -> Sequence[Call]:
    """Return the calls to judge: on a real device the first one also allocates workspaces that libraries keep."""
    return calls if run.machine.virtual or len(calls) == 1 else calls[1:]


def _has_peaks(machine: Machine) -> bool:
    """Return False on mps, whose allocator reports only the current amount."""
    return not machine.device.startswith("mps")


def _peak(calls: Sequence[Call]) -> tuple[Call, int, str] | None:
    """Return the call with the largest peak above the memory before it, that peak in bytes, and the device."""
    peaks = [
        (max(use.peak, event.allocated if (event := _highest(call, device)) else 0) - use.before, device, call)
        for call in calls
        for device, use in call.memory.items()
    ]
    if not peaks:
        return None
    most, device, call = max(peaks, key=lambda peak: peak[0])
    return call, most, device


def _over(run: Run, calls: Sequence[Call], limits: tuple[int, int], compared: str = "") -> Finding | None:
    low, high = limits
    limit = f"{_bytes(low)} to {_bytes(high)}" if low else f"at most {_bytes(high)}"
    expected = f"{limit} at the peak{compared}"
    peak = _peak(_judged(run, calls))
    if peak is None or not _has_peaks(run.machine):
        return _unknown(run, calls[0], expected)
    call, most, device = peak
    if low <= most <= high:
        return None
    event = _highest(call, device)
    line = event.line if event else None
    reached = f", reached at line {line} when it allocated {size(event.size_bytes)}" if event and line else ""
    return run.finding(calls[0], expected, f"{_bytes(most)} on {device}{reached}", line, PEAK_ADVICE)


def _over_baseline(run: Run, position: int, calls: Sequence[Call], ratio: float, baseline: str) -> Finding | None:
    theirs = run.baselines.get(baseline)
    if theirs is None:
        raise CourseError(f"{baseline}: it was not run", "It must be a file of the exercise's folder.")
    peak = _peak(theirs[position : position + 1])
    if peak is None:
        return _unknown(run, calls[0], f"at most {ratio:g} × the baseline's peak")
    if peak[1] <= 0:
        raise CourseError(f"{baseline}: its call holds no memory", "It must do the exercise's work on the device.")
    compared = f", which is {ratio:g} × the baseline's {size(peak[1])}"
    return _over(run, calls, (0, int(ratio * peak[1])), compared)


def _leak(run: Run, calls: Sequence[Call], limits: tuple[int, int]) -> Finding | None:
    low, high = limits
    more = f"at most {_bytes(high)} more in memory after each further call"
    expected = more if high else "nothing that stays in memory"
    grown = _growth(calls)
    if grown is None:
        return _unknown(run, calls[0], expected)
    growth, device = grown
    if growth <= high and (not low or growth >= low):
        return None
    lines = _lines_of_remaining(calls[-1], device, growth)
    origin = f", from {' or '.join(f'line {line}' for line in lines[:4])}" if lines else ""
    got = f"each call leaves {_bytes(growth)} more on {device}{origin}"
    return run.finding(calls[0], expected, got, lines[-1] if lines else None, LEAK_ADVICE)


def _growth(calls: Sequence[Call]) -> tuple[int, str] | None:
    """Return the bytes that the last call added to the remaining memory, and the device; None if unknown."""
    if len(calls) < _CALLS:
        return None
    before, last = calls[-2].memory, calls[-1].memory
    return max(
        (
            (now - then, device)
            for device in last.keys() & before.keys()
            if (now := last[device].left) is not None and (then := before[device].left) is not None
        ),
        default=None,
    )


def _highest(call: Call, device: str) -> Event | None:
    """Return the allocation at which the allocated memory was highest."""
    taken = [event for event in call.trace if event.kind is Kind.ALLOCATE and event.device == device]
    return max(taken, key=lambda event: event.allocated, default=None)


def _lines_of_remaining(call: Call, device: str, growth: int) -> list[int]:
    """Return the lines whose remaining allocations have this size; without any, the line with the largest amount."""
    allocated: defaultdict[int, list[Event]] = defaultdict(list)
    for event in call.trace:
        if event.device != device:
            continue
        if event.kind is Kind.ALLOCATE:
            allocated[event.size_bytes].append(event)
        elif event.kind is Kind.FREE and allocated[event.size_bytes]:
            allocated[event.size_bytes].pop()
    lines: Counter[int] = Counter()
    for event in itertools.chain.from_iterable(allocated.values()):
        if event.line is not None:
            lines[event.line] += event.size_bytes
    exactly = sorted(line for line, held in lines.items() if held == growth)
    return exactly or [line for line, _ in lines.most_common(1)]


def _bytes(number: int) -> str:
    """Return `1,536 bytes (1.50 KiB)`."""
    exact = exact_size(number)
    return f"{exact} ({size(number)})" if number >= 1024 else exact


def _unknown(run: Run, call: Call, expected: str) -> Finding:
    return run.inconclusive(call, expected, f"the memory of {run.machine.device} is not known")
