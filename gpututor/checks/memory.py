"""Memory: the most that a call holds on a device, and what stays behind when its result is gone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from gpututor.checks.bounds import Amount, parse_bounds
from gpututor.checks.model import Applies, Call, Check, Finding, Machine, Run
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.trace.events import Event, Kind
from gpututor.trace.formatting import exact_size, size

WHY = "A device's memory is small. What a call holds at its peak decides how large a model or a batch can be."
PEAK_ADVICE = "Let go of what is no longer needed before you make the next thing; work in place, or piece by piece."
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
    """Bytes that tensors hold on a device, as its allocator counts them; the device that holds most decides.

    `peak` is the most during a call above what was held before it; `left` is by how much the last of three calls with
    equal inputs adds to what stays when the result is gone. A number is the most that is allowed; (low, high) or a
    function of (drawn, machine) can be given too. `peak_ratio` is the largest peak as a multiple of that of `baseline`,
    a file of the exercise's folder that defines the same function. Raises `CourseError` when there is nothing to ask.
    """
    if peak is None and left is None and peak_ratio is None:
        raise CourseError(f"check {name!r}: nothing to ask", "In checks.py, give it peak=, left= or peak_ratio=.")
    if peak_ratio is not None and not 0 < peak_ratio < 1e6:
        raise CourseError(f"check {name!r}: a ratio of {peak_ratio}", "In checks.py, give a number above 0, as 1.2.")

    def sentence(_: Machine) -> str:
        words = ["It holds no more memory at once than it needs"] if peak is not None or peak_ratio is not None else []
        words += (
            ["nothing stays behind" if words else "Nothing stays in memory behind a call"] if left is not None else []
        )
        return ", and ".join(words)

    def find(run: Run) -> Finding | None:
        for position, first in enumerate(run.calls):
            calls = run.repeated[position] if run.repeated else (first,)
            finding = None
            if peak is not None:
                finding = _over(run, first, calls, _most(peak, first, run.machine, name), "")
            if finding is None and peak_ratio is not None:
                finding = _over_baseline(run, position, calls, peak_ratio, baseline)
            if finding is None and left is not None:
                finding = _leak(run, first, calls, _most(left, first, run.machine, name))
            if finding is not None:
                return finding
        return None

    def measured(run: Run) -> str:
        peaks = [_peak(_judged(run, calls)) for calls in _each(run) if _tells_peaks(run.machine)]
        known = [one[1] for one in peaks if one is not None]
        return f"{size(max(known))} at the peak" if known else ""

    repeats, wants = (_CALLS, ("left",)) if left is not None else (2, ())
    baselines = () if peak_ratio is None else (baseline,)
    return Check(
        name, sentence, find, (), why, advice, on, repeats=repeats, wants=wants, baselines=baselines, measured=measured
    )


def _most(amount: Amount, call: Call, machine: Machine, name: str) -> tuple[int, int]:
    """(low, high): a number alone is the most."""
    low, high = parse_bounds(amount, call, machine, name)
    return (0, high) if low == high else (low, high)


def _each(run: Run) -> Iterable[Sequence[Call]]:
    return run.repeated or [(call,) for call in run.calls]


def _judged(run: Run, calls: Sequence[Call]) -> Sequence[Call]:
    """On a real device the first call also takes workspaces that libraries keep from then on."""
    return calls if run.machine.virtual or len(calls) == 1 else calls[1:]


def _tells_peaks(machine: Machine) -> bool:
    """The allocator of mps only says what is held now."""
    return not machine.device.startswith("mps")


def _peak(calls: Sequence[Call]) -> tuple[Call, int, str] | None:
    """The call that held most above what was there before it, how many bytes, and on which device."""
    found = [
        (max(use.peak, _reached(call, device)) - use.before, device, call)
        for call in calls
        for device, use in call.memory.items()
    ]
    if not found:
        return None
    most, device, call = max(found, key=lambda one: one[0])
    return call, most, device


def _reached(call: Call, device: str) -> int:
    """What the trace says of the peak, in bytes: the function may have reset the meter."""
    event = _highest(call, device)
    return event.allocated if event is not None else 0


def _over(run: Run, first: Call, calls: Sequence[Call], allowed: tuple[int, int], beside: str) -> Finding | None:
    low, high = allowed
    expected = (
        f"at most {_bytes(high)} at the peak{beside}" if not low else f"{_bytes(low)} to {_bytes(high)} at the peak"
    )
    found = _peak(_judged(run, calls))
    if found is None or not _tells_peaks(run.machine):
        return _unknown(run, first, expected)
    call, most, device = found
    if low <= most <= high:
        return None
    event = _highest(call, device)
    line = event.line if event is not None else None
    reached = f", reached at line {line} when it took {size(event.size_bytes)}" if event is not None and line else ""
    got = f"{_bytes(most)} on {device}{reached}{run.which(first)}"
    return Finding(expected, got, line or run.line_of(first), advice=PEAK_ADVICE)


def _over_baseline(run: Run, position: int, calls: Sequence[Call], ratio: float, baseline: str) -> Finding | None:
    theirs = run.baselines.get(baseline)
    if theirs is None:
        raise CourseError(f"{baseline}: it was not run", "It must be a file of the exercise's folder.")
    found = _peak(theirs[position : position + 1])
    if found is None:
        return _unknown(run, calls[0], f"at most {ratio:g} × the baseline's peak")
    if found[1] <= 0:
        raise CourseError(f"{baseline}: its call holds no memory", "It must do the exercise's work on the device.")
    beside = f", which is {ratio:g} × the baseline's {size(found[1])}"
    return _over(run, calls[0], calls, (0, int(ratio * found[1])), beside)


def _leak(run: Run, first: Call, calls: Sequence[Call], allowed: tuple[int, int]) -> Finding | None:
    low, high = allowed
    expected = (
        f"at most {_bytes(high)} more in memory after each further call" if high else "nothing that stays in memory"
    )
    grown = _growth(calls)
    if grown is None:
        return _unknown(run, first, expected)
    growth, device = grown
    if growth <= high and (not low or growth >= low):
        return None
    lines = _lines_of_what_stays(calls[-1], device, growth)
    line = lines[-1] if lines else None
    where = f", from {' or '.join(f'line {one}' for one in lines[:4])}" if lines else ""
    got = f"each call leaves {_bytes(growth)} more on {device}{where}{run.which(first)}"
    return Finding(expected, got, line or run.line_of(first), advice=LEAK_ADVICE)


def _growth(calls: Sequence[Call]) -> tuple[int, str] | None:
    """By how much the last call added to what stays, and on which device. What the first one keeps is no leak."""
    if len(calls) < _CALLS:
        return None
    before, last = calls[-2].memory, calls[-1].memory
    found = []
    for device in last.keys() & before.keys():
        now, then = last[device].left, before[device].left
        if now is not None and then is not None:
            found.append((now - then, device))
    return max(found, default=None)


def _highest(call: Call, device: str) -> Event | None:
    """What was taken when most was held."""
    taken = [event for event in call.trace if event.kind is Kind.ALLOCATE and event.device == device]
    return max(taken, key=lambda event: event.allocated, default=None)


def _lines_of_what_stays(call: Call, device: str, growth: int) -> list[int]:
    """The lines of memory that was taken and not given back: those of that size, else the one with most of it."""
    taken: defaultdict[int, list[Event]] = defaultdict(list)
    for event in call.trace:
        if event.device != device:
            continue
        if event.kind is Kind.ALLOCATE:
            taken[event.size_bytes].append(event)
        elif event.kind is Kind.FREE and taken[event.size_bytes]:
            taken[event.size_bytes].pop()
    lines: Counter[int] = Counter()
    for event in (one for events in taken.values() for one in events):
        if event.line is not None:
            lines[event.line] += event.size_bytes
    exactly = sorted(line for line, held in lines.items() if held == growth)
    return exactly or [line for line, _ in lines.most_common(1)]


def _bytes(number: int) -> str:
    """`1,536 bytes (1.50 KiB)`"""
    exact = exact_size(number)
    return f"{exact} ({size(number)})" if number >= 1024 else exact


def _unknown(run: Run, call: Call, expected: str) -> Finding:
    return Finding(
        expected,
        f"nobody knows what {run.machine.device} held{run.which(call)}",
        advice="Grade it on the virtual GPU, which knows.",
        status=Status.INCONCLUSIVE,
    )
