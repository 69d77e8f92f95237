"""Texts about reports: glyphs, outcomes and the progress of a grading, for the app and the command line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpututor.grading.outcome import Outcome, Status

if TYPE_CHECKING:
    from gpututor.grading.events import GradingEvent
    from gpututor.grading.report import Report, Verdict

GLYPHS = dict.fromkeys(Status, "○") | {Status.PASSED: "✓", Status.FAILED: "✗", Status.TOO_SLOW: "✗"}

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
    Outcome.REJECTED: "✗ Rejected",
    Outcome.INTERNAL_ERROR: "! The grader failed",
}

DOES_NOT_RUN = "✗ Does not run yet"
"""Title of a report on a file that does not load."""
LEAST_TIME = "is the least that the device can take for this work"
"""End of a sentence about a submission that was faster."""
COLD_S = 0.3
"""Seconds until a worker is ready, from which they are shown separately."""
_COUNTED = [status for status in Status if status not in (Status.PASSED, Status.FAILED)]
"""Statuses that are counted besides passed checks; all other checks failed."""


def mark(status: Status) -> str:
    """Return text like `✓ passed`."""
    return f"{GLYPHS[status]} {status.value}"


def count(number: int, singular: str, plural: str = "") -> str:
    """Return text like `1 check`, `3 checks`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def line_of(verdict: Verdict, source_lines: Sequence[str]) -> str:
    """Return the verdict's line of the source without its indentation, unless that is wrong; empty if unknown."""
    if verdict.line is None or not 0 < verdict.line <= len(source_lines):
        return ""
    line = source_lines[verdict.line - 1].rstrip()
    return line if "IndentationError" in verdict.got else line.lstrip()


def device_words(device: str) -> str:
    """Return the device's name with "(modelled)" on a virtual machine, also on one without a GPU."""
    is_modelled = "virtual" in device or device.startswith("no ")
    return f"{device} (modelled)" if is_modelled and "modelled" not in device else device


def outcome_title(report: Report) -> str:
    """Return text like `✗ Failed`, or that the file does not load."""
    is_unready = report.outcome is Outcome.ERROR and report.loads_nowhere
    return DOES_NOT_RUN if is_unready else OUTCOME_TITLES[report.outcome]


def outcome_line(report: Report) -> str:
    """Return text like `✗ Failed: 1 of 4 checks passed, 2 not run, 3 of 10 points`.

    Points are left out if all checks are worth the same; without loading, nothing is counted.
    """
    title = outcome_title(report)
    total = len(report.verdicts)
    parts: list[str] = []
    if report.outcome is Outcome.PASSED:
        parts = [f"all {count(total, 'check')}"] if total > 1 else []
    elif not report.loads_nowhere:
        by_status = Counter(verdict.status for verdict in report.verdicts)
        parts = [f"{by_status[Status.PASSED]} of {count(total, 'check')} passed"] if total else []
        parts += [f"{by_status[status]} {status}" for status in _COUNTED if by_status[status]]
    parts += filter(None, [points_line(report)])
    return f"{title}: {', '.join(parts)}" if parts else title


def points_line(report: Report) -> str:
    """Return text like `7 of 10 points`; empty if every check is worth one point."""
    if all(verdict.of in (0, 1) for verdict in report.verdicts):
        return ""
    points, of = (f"{number:.2f}".rstrip("0").rstrip(".") for number in (report.points, report.of))
    return f"{points} of {of} points{'' if report.final else ' so far (no mark yet)'}"


def elapsed(report: Report) -> str:
    """Return text like `0.04 s` or `2.1 s, of which 1.9 s to load PyTorch`."""
    if report.waited_s < COLD_S:
        return f"{report.elapsed_s:.2g} s" if report.elapsed_s < 1 else f"{report.elapsed_s:.1f} s"
    return f"{report.elapsed_s:.1f} s, of which {report.waited_s:.1f} s to load PyTorch"


def evidence(report: Report) -> str:
    """Return text like `times modelled; placement traced`; empty if nothing ran."""
    times: list[str] = [run.times for run in report.runs if run.times]
    placements: list[str] = [run.placement for run in report.runs if run.placement]
    parts = (("times", times), ("placement", placements))
    return "; ".join(f"{name} {' and '.join(dict.fromkeys(values))}" for name, values in parts if values)


def own_gpu(report: Report) -> str:
    """Return the exercise's own GPU model if a run used another model of the virtual GPU; else an empty text."""
    return " and ".join(dict.fromkeys(run.own_gpu for run in report.runs if run.own_gpu))


def line_after_pass(report: Report, timeline: str, left: Sequence[str]) -> str:
    """Return the exercise's line on the timeline, or the checks left to the instructor, after a pass; else nothing."""
    if report.outcome is not Outcome.PASSED:
        return ""
    if left:
        return f"Left to your instructor: {', '.join(left)}."
    return f"On the timeline: {timeline}" if timeline else ""


def remarks(report: Report) -> list[str]:
    """Return lines about the report as a whole, such as the reason for its outcome."""
    lines = [report.reason] if report.reason else []
    held_back = dict.fromkeys(verdict.why for verdict in report.verdicts if verdict.status is Status.HELD_BACK)
    lines += [_held_back_line(why) for why in held_back]
    if own := own_gpu(report):
        advice = (
            f" Grade it on a {own}, too, before you look for the mistake: leave out --model, or change the setting."
        )
        passed = report.outcome is Outcome.PASSED
        text = f"The exercise is made for a {own}, and this run was on another GPU model."
        lines.append(text if passed else text + advice)
    lines += [f"For a person to review: {suspicion}" for suspicion in report.suspicions]
    notes = [note.words for note in report.source_notes if note.words not in report.suspicions]
    return lines + [f"Note: {note}. In a class, a person would review it." for note in notes]


def _held_back_line(why: str) -> str:
    """Return a sentence about checks that are held back; reports of older versions give a cause only."""
    words = why if why.startswith("held back") else f"held back: {why or 'the values are wrong'}"
    return f"H{words[1:]}."


LOADING_S = 1.0
"""Seconds after which a worker that has not started must be loading PyTorch: a warm worker starts sooner. Also seconds
after which the app shows a run's progress."""


class RunProgress:
    """Progress of the running grading."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, limit_s: float | None = None) -> None:
        """`limit_s`: the exercise's limit for each machine, if it is known."""
        self._clock = clock
        self._limit_s = limit_s
        self.printed = ""
        """The newest line that the submission printed, unchanged."""
        self._began = clock()
        self._machine = (1, 1)
        self._call = (0, 0)
        self._pairs: tuple[int, int] | None = None
        self._has_begun = False

    def note(self, event: GradingEvent) -> None:
        # Imported late, as `gpututor list` prints no progress.
        from gpututor.grading.events import (
            CallStarted,
            OutputPrinted,
            ScenarioStarted,
            TimingProgressed,
            WaitingForDevice,
        )

        match event:
            case WaitingForDevice():
                self._has_begun = True  # the worker has started
            case ScenarioStarted(_, _, number, of):
                self._has_begun, self._machine, self._call, self._pairs = True, (number, of), (0, 0), None
                self.printed = ""
            case CallStarted(number, of):
                self._call = (number, of)
            case OutputPrinted(line):
                self.printed = line
            case TimingProgressed(_, pairs, most):
                self._pairs = (pairs, most)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    @property
    def is_loading(self) -> bool:
        """True if a worker takes so long to start that it must be loading PyTorch."""
        return not self._has_begun and self.elapsed_s >= LOADING_S

    @property
    def is_noticeable(self) -> bool:
        return self.elapsed_s >= LOADING_S

    @property
    def duration(self) -> str:
        """Text like `12 s` or `2 min 05 s`."""
        minutes, rest = divmod(int(self.elapsed_s), 60)
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"

    @property
    def limit(self) -> str:
        """Text like `limit 10 s`, or `limit 10 s per machine`; empty if there is no known limit."""
        if self._limit_s is None:
            return ""
        return f"limit {self._limit_s:g} s{' per machine' if self._machine[1] > 1 else ''}"

    @property
    def where(self) -> str:
        """The current step, such as `machine 2 of 3, call 1 of 4`; empty if there is only one step."""
        parts = []
        if self._machine[1] > 1:
            parts.append(f"machine {self._machine[0]} of {self._machine[1]}")
        if self._pairs is not None:
            parts.append(f"timing pair {self._pairs[0]} of at most {self._pairs[1]}")
        elif self._call[1] > 1:
            parts.append(f"call {self._call[0]} of {self._call[1]}")
        return ", ".join(parts)
