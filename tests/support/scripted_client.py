"""A grading client with scripted answers, and reports for it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpututor.errors import GradingError
from gpututor.grading.events import (
    CheckFinished,
    GradeRequest,
    GradingCancelled,
    GradingEvent,
    GradingFinished,
    ScenarioStarted,
)
from gpututor.grading.report import Environment, Outcome, Report, RunSummary, Status, Verdict
from gpututor.trace.columns import Trace
from tests.support.recordings import DEVICE, make_recording, small_trace

ENVIRONMENT = Environment("0.1.0", "2.13.0", "3.11.4", "Linux", "process", 7)


def verdict(check: str, status: Status = Status.PASSED, *, scenario: str = "one GPU", **words: object) -> Verdict:
    return Verdict(check, f"The check called {check} holds", status, scenario, **words)  # type: ignore[arg-type]


def failure(scenario: str = "one GPU", **words: object) -> Verdict:
    texts = {
        "expected": "a result on cuda:0",
        "got": "a result on cpu",
        "line": 2,
        "why": "The next kernel would have to wait for a copy.",
        "advice": "Create it there: pass device=.",
    }
    return verdict("placement", Status.FAILED, scenario=scenario, **{**texts, **words})


def report(
    request: GradeRequest,
    *verdicts: Verdict,
    outcome: Outcome | None = None,
    output: str = "",
    traceback: str = "",
    reason: str = "",
) -> Report:
    """Return the report on a request; by default its outcome follows from the verdicts."""
    scenarios = dict.fromkeys(each.scenario for each in verdicts)
    runs = tuple(RunSummary(name, DEVICE, True, output=output, traceback=traceback) for name in scenarios)
    failed = any(each.status is Status.FAILED for each in verdicts)
    folder = Path(request.exercise_folder)
    return Report(
        f"{folder.parent.name[3:]}/{folder.name[3:]}",
        outcome or (Outcome.FAILED if failed else Outcome.PASSED),
        verdicts,
        runs,
        ENVIRONMENT,
        hashlib.sha256(request.submission.encode()).hexdigest(),
        "2026-01-02T03:04:05+00:00",
        0.2,
        reason,
    )


Judge = Callable[[GradeRequest], Report]


def judge_by_text(request: GradeRequest) -> Report:
    """Pass a submission that doubles its number, and fail every other on placement."""
    if "2 * number" in request.submission:
        return report(request, verdict("loads"), verdict("placement"), verdict("parity"), output="hello\n")
    return report(request, verdict("loads"), failure(), verdict("parity", Status.NOT_RUN), output="hello\n")


class ScriptedClient:
    """A client that answers at once, or waits after the first verdict until a test releases or cancels it."""

    def __init__(self, judge: Judge = judge_by_text, *, holds: bool = False) -> None:
        self.judge = judge
        self.holds = holds
        self.breaks: Exception | None = None
        self.records = True
        """True to write the recordings that requests ask for."""
        self.traces: Callable[[GradeRequest], Sequence[Trace]] = lambda request: [small_trace(file=request.file_name)]
        """Traces of a request's calls, for its recording."""
        self.requests: list[GradeRequest] = []
        self.warmed = threading.Event()
        self.cancelled = threading.Event()
        self.released = threading.Event()

    def warm(self) -> None:
        self.warmed.set()

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
        holds = self.holds
        self.cancelled.clear()
        self.released.clear()
        self.requests.append(request)  # last: who sees it may change all that stands above
        if self.breaks is not None:
            raise self.breaks
        outcome = self.judge(request)
        if request.recording_folder is not None and self.records:
            self.record(Path(request.recording_folder), request)
        for run in outcome.runs:
            yield ScenarioStarted(run.scenario, run.device)
            for each in outcome.verdicts:
                if each.scenario == run.scenario:
                    yield CheckFinished(each)
                    if holds:
                        self.released.wait()
                        if self.cancelled.is_set():
                            yield GradingCancelled()
                            return
        yield GradingFinished(outcome)

    def record(self, folder: Path, request: GradeRequest) -> None:
        make_recording(folder, *self.traces(request), device=DEVICE, file=request.file_name)

    def cancel(self) -> None:
        self.cancelled.set()
        self.released.set()

    def close(self) -> None:
        self.cancel()


BROKEN = GradingError("The judge could not be started.", "Run `gpututor doctor`.")
