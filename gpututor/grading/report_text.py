"""Reports in words: glyphs, outcomes and the progress of a grading, for the app and the command line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from gpututor.grading.events import CallStarted, GradingEvent, ScenarioStarted, TimingProgressed
from gpututor.grading.report import Outcome, Report, Status

GLYPHS = {
    Status.PASSED: "✓",
    Status.FAILED: "✗",
    Status.TOO_SLOW: "✗",
    Status.INCONCLUSIVE: "○",
    Status.NEEDS_REVIEW: "○",
    Status.NOT_RUN: "○",
    Status.HELD_BACK: "○",
}

OUTCOME_TITLES = {
    Outcome.PASSED: "✓ Passed",
    Outcome.FAILED: "✗ Failed",
    Outcome.ERROR: "✗ Stopped by an error",
    Outcome.TIMEOUT: "✗ Took too long",
    Outcome.OUT_OF_MEMORY: "✗ Out of memory",
    Outcome.CRASHED: "✗ Crashed",
    Outcome.TOO_SLOW: "✗ Too slow",
    Outcome.INCONCLUSIVE: "○ Inconclusive",
    Outcome.NEEDS_REVIEW: "○ Needs review",
    Outcome.NOT_GRADABLE_HERE: "○ Not gradable here",
    Outcome.REJECTED: "✗ Refused",
    Outcome.INTERNAL_ERROR: "! The grader broke",
}

DOES_NOT_RUN = "✗ Does not run yet"
"""The title of a report on a file with an error that keeps it from loading."""
LEAST_TIME = "is the least that the device can take for this work"
"""Said of a submission that was faster."""
COLD_S = 0.3
"""Seconds of waiting for a worker, which loads PyTorch, from which they are told apart."""
_TOLD = [status for status in Status if status not in (Status.PASSED, Status.FAILED)]
"""What is counted beside the checks that passed; the rest has failed."""


def mark(status: Status) -> str:
    """`✓ passed`"""
    return f"{GLYPHS[status]} {status.value}"


def count(number: int, one: str, many: str = "") -> str:
    """`1 check`, `3 checks`"""
    return f"{number} {one if number == 1 else many or one + 's'}"


def device_words(device: str) -> str:
    """The device for people; what is only modelled says so, also where the virtual machine has no GPU."""
    is_modelled = "virtual" in device or device.startswith("no ")
    return f"{device} (modelled)" if is_modelled and "modelled" not in device else device


def outcome_title(report: Report) -> str:
    """`✗ Failed`; a file with an error that keeps it from loading is told so."""
    is_unready = report.outcome is Outcome.ERROR and report.loads_nowhere
    return DOES_NOT_RUN if is_unready else OUTCOME_TITLES[report.outcome]


def outcome_line(report: Report) -> str:
    """`✗ Failed: 1 of 4 checks passed, 2 not run`; with `, 3 of 10 points` where checks are worth different points.

    Of a file that does not load nothing is counted: `✗ Does not run yet: no checks were made`.
    """
    title = outcome_title(report)
    total = len(report.verdicts)
    if report.loads_nowhere:
        parts = ["no checks were made"]
    elif report.outcome is Outcome.PASSED:
        parts = [f"all {count(total, 'check')}"] if total > 1 else []
    else:
        by_status = Counter(verdict.status for verdict in report.verdicts)
        parts = [f"{by_status[Status.PASSED]} of {count(total, 'check')} passed"] if total else []
        parts += [f"{by_status[status]} {status}" for status in _TOLD if by_status[status]]
    parts += filter(None, [points_line(report)])
    return f"{title}: {', '.join(parts)}" if parts else title


def points_line(report: Report) -> str:
    """`7 of 10 points`; empty where every check is worth the same single point, as when the author set none."""
    if all(verdict.of in (0, 1) for verdict in report.verdicts):
        return ""
    words = f"{_number(report.points)} of {_number(report.of)} points"
    return words if report.final else f"{words} so far (no mark yet)"


def _number(points: float) -> str:
    """`7`, `2.5`, `0.33`"""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def elapsed(report: Report) -> str:
    """`0.04 s`; `2.1 s, of which 1.9 s to load PyTorch`."""
    if report.waited_s < COLD_S:
        return f"{report.elapsed_s:.2g} s" if report.elapsed_s < 1 else f"{report.elapsed_s:.1f} s"
    return f"{report.elapsed_s:.1f} s, of which {report.waited_s:.1f} s to load PyTorch"


def evidence(report: Report) -> str:
    """`times modelled; placement traced`: how what the report says is known; empty where nothing ran."""
    parts = []
    for what, values in (
        ("times", [run.times for run in report.runs]),
        ("placement", [run.placement for run in report.runs]),
    ):
        if found := [value for value in dict.fromkeys(values) if value]:
            parts.append(f"{what} {' and '.join(found)}")
    return "; ".join(parts)


def own_gpu(report: Report) -> str:
    """Return the exercise's own GPU model if a run was on another one of the virtual GPU; else an empty text."""
    return " and ".join(dict.fromkeys(run.own_gpu for run in report.runs if run.own_gpu))


def remarks(report: Report) -> list[str]:
    """Return what there is to say about a report as a whole, a line each, such as the reason for its outcome."""
    lines = [report.reason, *_held_back(report), *_other_gpu(report), *_to_look_at(report)]
    return [line for line in lines if line]


def _held_back(report: Report) -> list[str]:
    if any(verdict.status is Status.HELD_BACK for verdict in report.verdicts):
        return ["Held back: the values are wrong. Those checks earn their points once the values are right."]
    return []


def _other_gpu(report: Report) -> list[str]:
    """Return what to know of a run on another GPU model than the exercise's own: a sentence, or none."""
    own = own_gpu(report)
    if not own:
        return []
    words = f"The exercise is made for a {own}, and this run was on another GPU model."
    if report.outcome is not Outcome.PASSED:
        words += (
            f" Grade it on a {own}, too, before you look for the mistake: leave out --model, or change the setting."
        )
    return [words]


def _to_look_at(report: Report) -> list[str]:
    """Return a line for each thing that a person should look at, then one for each note on the source."""
    lines = [f"For a person to look at: {suspicion}" for suspicion in report.suspicions]
    notes = [note.words for note in report.source_notes if note.words not in report.suspicions]
    return lines + [f"Note: {words}. In a class a person would look at it." for words in notes]


LONG_S = 3.0
"""From then on a grading is long: it tells how long, and where it is."""
LOADING_S = 1.0
"""A worker that was warm begins sooner; one that was not loads PyTorch first."""


class RunProgress:
    """Of the grading that is on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._machine = (1, 1)
        self._call = (0, 0)
        self._pairs: tuple[int, int] | None = None
        self._has_begun = False

    def hear(self, event: GradingEvent) -> None:
        """What has happened."""
        match event:
            case ScenarioStarted(_, _, number, of):
                self.scenario_started(number, of)
            case CallStarted(number, of):
                self.call_began(number, of)
            case TimingProgressed(_, pairs, most):
                self.pairs_timed(pairs, most)
            case _:
                return

    def scenario_started(self, number: int, of: int) -> None:
        """The turn of machine `number` of so many."""
        self.begun()
        self._machine, self._call, self._pairs = (number, of), (0, 0), None

    def begun(self) -> None:
        """What is waited for is not that a worker starts."""
        self._has_begun = True

    def call_began(self, number: int, of: int) -> None:
        self._call = (number, of)

    def pairs_timed(self, pairs: int, most: int) -> None:
        self._pairs = (pairs, most)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    @property
    def is_loading(self) -> bool:
        """Whether a worker takes so long to start that it must be loading PyTorch."""
        return not self._has_begun and self.elapsed_s >= LOADING_S

    @property
    def is_long(self) -> bool:
        return self.elapsed_s >= LONG_S

    @property
    def duration(self) -> str:
        """`12 s`, `2 min 05 s`"""
        minutes, rest = divmod(int(self.elapsed_s), 60)
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"

    @property
    def where(self) -> str:
        """At what it is: `machine 2 of 3, call 1 of 4`; empty where there is only one of each."""
        parts = []
        if self._machine[1] > 1:
            parts.append(f"machine {self._machine[0]} of {self._machine[1]}")
        if self._pairs is not None:
            parts.append(f"timing pair {self._pairs[0]} of at most {self._pairs[1]}")
        elif self._call[1] > 1:
            parts.append(f"call {self._call[0]} of {self._call[1]}")
        return ", ".join(parts)
