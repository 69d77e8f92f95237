"""Times beside each other, ready to be drawn: this attempt, baselines, other attempts, the floor, the limit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpututor.app.widgets.device.view import cases_of
from gpututor.grading.recording import BaselineRecording, RunRecording
from gpututor.plain_text import visible
from gpututor.trace.units import duration

if TYPE_CHECKING:
    from gpututor.app.widgets.device.view import RunView
    from gpututor.grading.report import Verdict

_TIME = r"[\d.,]+ (?:ns|µs|ms|s)"
_SPREAD = rf"({_TIME})(?: \(({_TIME}) to ({_TIME})\))?"
_MEASURED = re.compile(
    rf"([\d.]+) × the baseline's time \(([\d.]+) to ([\d.]+) in the middle half of (\d+) pairs\): "
    rf"{_SPREAD} a call against {_SPREAD}, measured"
)
_MODELLED = re.compile(rf"[\d.]+ × the baseline's time: {_TIME} against ({_TIME})")
_AT_MOST = re.compile(r"It takes at most ([\d.]+) × the time of ")
_AS_FAST = re.compile(r"It is at least ([\d.]+) × as fast as ")
_NO_LONGER = re.compile(r"It takes no longer than ")
_UNITS = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True)
class TimeBar:
    """One time, in nanoseconds."""

    words: str
    time_ns: int
    note: str = ""
    role: str = "other"
    """`mine`, `baseline`, `other`, `floor` or `limit`."""
    low_ns: int = 0
    high_ns: int = 0
    """Of a measured time: between what the middle half of the measurements lies; 0 where that is not known."""


@dataclass(frozen=True)
class Bars:
    """Times on one scale, under a heading."""

    heading: str
    bars: tuple[TimeBar, ...]


def all_bars(view: RunView) -> tuple[Bars, ...]:
    """Everything that is known of the view's run."""
    run = view.run
    speeds = [one for one in view.verdicts if one.scenario == run.scenario and limit_of(one.sentence) is not None]
    found = []
    if run.times and run.elapsed_ns:
        found.append(Bars(_heading(run), tuple(_whole(view, run, speeds))))
    found += [bars for one in speeds if (bars := _measured_bars(one)) is not None]
    cases = cases_of(run)
    if run.times and run.elapsed_ns and len(cases) > 1:
        found.append(Bars(f"Call by call, {run.times}", tuple(_by_case(view, run))))
    return tuple(found)


def limit_of(sentence: str) -> float | None:
    """What a speed check allows, as a multiple of its baseline's time; None for any other sentence."""
    if found := _AT_MOST.match(sentence):
        return float(found[1])
    if found := _AS_FAST.match(sentence):
        return 1 / float(found[1])
    return 1.0 if _NO_LONGER.match(sentence) else None


def nanoseconds(words: str) -> int:
    """`1.25 ms` as a number."""
    number, _, unit = words.partition(" ")
    return round(float(number.replace(",", "")) * _UNITS[unit])


def _heading(run: RunRecording) -> str:
    number = len(cases_of(run))
    return f"{f'The {number} calls together' if number > 1 else 'The call'}, {run.times}"


def _whole(view: RunView, run: RunRecording, speeds: Iterable[Verdict]) -> Iterator[TimeBar]:
    first = run.baselines[0] if run.baselines else None
    yield TimeBar(f"this attempt ({view.attempt})", run.elapsed_ns, _beside(run.elapsed_ns, first), "mine")
    for one in run.baselines:
        yield TimeBar(visible(one.name), one.elapsed_ns, "what it is compared with", "baseline")
    for other in view.others:
        theirs = next((each for each in other.recording.runs if each.scenario == run.scenario), None)
        if theirs is not None and theirs.elapsed_ns and theirs.times == run.times:
            yield TimeBar(other.words, theirs.elapsed_ns, _of_other(run, theirs))
    for verdict in speeds:
        baseline = _its_baseline(run, verdict)
        if baseline is not None and run.times == "modelled":
            limit = limit_of(verdict.sentence) or 1.0
            note = f"{limit:.3g} × {visible(baseline.name)}"
            yield TimeBar("allowed", round(limit * baseline.elapsed_ns), note, "limit")
    if run.floor_ns:
        yield TimeBar("the floor", run.floor_ns, "no program can be faster here", "floor")


def _beside(time_ns: int, baseline: BaselineRecording | None) -> str:
    """`0.09 × baseline.py`"""
    if baseline is None or not baseline.elapsed_ns:
        return ""
    return f"{time_ns / baseline.elapsed_ns:.2f} × {visible(baseline.name)}"


def _of_other(mine: RunRecording, theirs: RunRecording) -> str:
    """How another attempt's time can be read: inputs are drawn anew for each grading."""
    baseline = theirs.baselines[0] if theirs.baselines else None
    words = _beside(theirs.elapsed_ns, baseline)
    if [call.words for call in mine.calls] == [call.words for call in theirs.calls]:
        return words or f"{theirs.elapsed_ns / mine.elapsed_ns:.2f} × this attempt"
    return ", ".join(filter(None, [words, "with other inputs"]))


def _its_baseline(run: RunRecording, verdict: Verdict) -> BaselineRecording | None:
    """The baseline whose time the verdict's figures name."""
    found = _MODELLED.match(verdict.measured)
    named = [one for one in run.baselines if found and duration(one.elapsed_ns) == found[1]]
    return next(iter(named or run.baselines), None)


def _measured_bars(verdict: Verdict) -> Bars | None:
    """What was timed in pairs on a real device, with its spread."""
    found = _MEASURED.match(verdict.measured)
    if found is None:
        return None
    ratio, low, high, pairs = found[1], found[2], found[3], found[4]
    mine = [nanoseconds(one) if one else 0 for one in found.group(5, 6, 7)]
    theirs = [nanoseconds(one) if one else 0 for one in found.group(8, 9, 10)]
    limit = limit_of(verdict.sentence) or 1.0
    return Bars(
        f"One call, timed in {pairs} pairs, measured; the middle half is shown pale",
        (
            TimeBar("this attempt", mine[0], f"{ratio} × ({low} to {high})", "mine", mine[1], mine[2]),
            TimeBar("the baseline", theirs[0], "", "baseline", theirs[1], theirs[2]),
            TimeBar("allowed", round(limit * theirs[0]), f"{limit:.3g} × the baseline", "limit"),
        ),
    )


def _by_case(view: RunView, run: RunRecording) -> Iterator[TimeBar]:
    """Each call, beside the same one of the first baseline."""
    baselines = {call.words: call.elapsed_ns for call in run.baselines[0].calls} if run.baselines else {}
    for number, case in enumerate(cases_of(run)):
        theirs = baselines.get(case.calls[0].words, 0)
        note = f"{case.work_ns / theirs:.2f} ×" if theirs else ""
        note = note if case.work_ns else "nothing ran"
        words = visible(re.sub(r" of \d+", "", case.words))
        yield TimeBar(words, case.work_ns, note, "mine" if number == view.case_number else "other")
