"""Fake judges and their jobs, for tests of executors."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from gpututor.classroom.jobs import Job
from gpututor.errors import GradingError
from gpututor.grading.description import CheckDescription
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingEvent, GradingFinished
from gpututor.grading.journal import GradingKey, write_entry
from gpututor.grading.report import Outcome, Report
from tests.support.classes import report_of

Deed = Callable[["FakeJudge", GradeRequest], Outcome | None]
"""The behavior of a judge: returns an outcome, or None to pass the submission."""


def job_of(
    folder: Path, exercise: str = "lesson/one", text: str = "a", timeout_s: float = 60.0, device: str = ""
) -> Job:
    """Return a job whose submission is `text`."""
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.py"
    path.write_text(text)
    key = GradingKey(path.stem, exercise, "1" * 64, "0.1.0", "2.9.0", device or "virtual", "process", "2" * 16)
    wanted = device.partition(" ")[0] or "virtual"
    return Job(key, str(folder), str(path), "one.py", 1, wanted, "", str(folder / "journal"), timeout_s)


class Bench:
    """A maker of judges with the same behavior, which records their gradings."""

    def __init__(self, deed: Deed | None = None) -> None:
        self._deed = deed
        self.made = 0
        self.closed = 0
        self.graded: list[GradeRequest] = []
        self.tries: Counter[str] = Counter()
        self.changed = threading.Condition()

    def __call__(self) -> FakeJudge:
        self.made += 1
        return FakeJudge(self, self.made)

    def deed(self, judge: FakeJudge, request: GradeRequest) -> Outcome | None:
        with self.changed:
            self.graded.append(request)
            self.tries[request.submission] += 1
            self.changed.notify_all()
        return self._deed(judge, request) if self._deed else None


class FakeJudge:
    """A fake `GradingClient`."""

    def __init__(self, bench: Bench, number: int) -> None:
        self.bench = bench
        self.number = number
        self.ended = threading.Event()
        """Set by `cancel` and `close`."""

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
        outcome = self.bench.deed(self, request) or Outcome.PASSED
        if self.ended.is_set():
            yield GradingCancelled()
            return
        yield GradingFinished(self.report(request, outcome))

    def report(self, request: GradeRequest, outcome: Outcome) -> Report:
        """Make a report, and write it to the journal if it is a result."""
        assert request.key is not None
        assert request.journal is not None
        report = report_of(request.key.exercise, outcome, submission=request.submission, reason=f"{outcome} here")
        if outcome not in (Outcome.INTERNAL_ERROR, Outcome.NOT_GRADABLE_HERE):
            write_entry(Path(request.journal), request.key, report)
        return report

    def warm(self) -> None: ...

    def cancel(self) -> None:
        self.ended.set()

    def close(self) -> None:
        self.bench.closed += 1
        self.ended.set()


def dies(judge: FakeJudge, request: GradeRequest) -> Outcome | None:
    """Break during the grading."""
    raise GradingError("The judge stopped in the middle of a grading.", "Try again.")


def dies_after_writing(judge: FakeJudge, request: GradeRequest) -> Outcome | None:
    """Break after the report was written."""
    judge.report(request, Outcome.FAILED)
    raise GradingError("The judge stopped in the middle of a grading.", "Try again.")


def hangs(judge: FakeJudge, request: GradeRequest) -> Outcome | None:
    """Wait until the judge is ended."""
    judge.ended.wait(60)
    return None


def on(texts: Mapping[str, Deed]) -> Deed:
    """Choose the behavior by the submission's text."""
    return lambda judge, request: texts[request.submission](judge, request) if request.submission in texts else None


class Describer:
    """A `GradingClient` that describes checks in this process."""

    asked: ClassVar[list[str]] = []

    def describe(self, exercise_folder: str) -> tuple[CheckDescription, ...]:
        from gpututor.grading.description import description_from_json
        from gpututor.judge.author_code import answer_describe

        self.asked.append(exercise_folder)
        return description_from_json(answer_describe(exercise_folder))

    def close(self) -> None:
        pass
