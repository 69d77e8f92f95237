"""The client of the judge: starts it, warms it, streams what it says, cancels. No torch here."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Literal, Protocol

from gpututor import paths
from gpututor.errors import GradingError
from gpututor.grading.description import CheckDescription, description_from_json
from gpututor.grading.events import (
    GradeRequest,
    GradingCancelled,
    GradingEvent,
    GradingFinished,
    event_from_json,
    request_to_json,
)
from gpututor.grading.judge_process import JudgeProcess
from gpututor.protocol.frames import FrameError

CANCEL_GRACE_S = 0.5
"""How long the judge may take to answer a cancel before it is killed with everything that it started."""

IsolationName = Literal["process", "bubblewrap"]
WorkersName = Literal["spare", "fork server"]
QUICKEST: WorkersName = "fork server" if sys.platform == "linux" else "spare"
"""For who grades more than once: PyTorch is imported once, and a second worker, for a baseline or for files that are
opened, is there in milliseconds."""


class GradingService(Protocol):
    """A grader as the app needs it: a judge of its own, or a script in tests."""

    def warm(self) -> None: ...

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class GradingClient:
    """One judge process, started when it is first needed and again when it died.

    `isolation`: what its workers run in. Where that cannot be had, gradings end with `not gradable here`.
    `workers`: each a Python of its own, started ahead of need; or forked by a server that has imported torch (Linux).
    `once`: for one grading, after which no worker is started ahead of need.
    """

    def __init__(
        self, isolation: IsolationName = "process", workers: WorkersName = "spare", *, once: bool = False
    ) -> None:
        self._arguments = ("--isolation", isolation, "--workers", workers)
        self._once = once
        self._numbers = itertools.count()
        self._judge: JudgeProcess | None = None
        self._starting = threading.Lock()
        self._turn = threading.Lock()
        self._current: int | None = None
        self._cancelled: set[int] = set()

    def warm(self) -> None:
        """Start the judge, which starts a worker; returns at once. Raises `GradingError` when it cannot be started."""
        self._running_judge()

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
        """Grade, and yield what happens as it happens; the last event is `Graded` or `Cancelled`.

        Blocks: iterate in a thread. One grading runs at a time: a second call waits for the first to end, so cancel
        that one first. Raises `GradingError` when the judge cannot be started, broke, or was silent for too long.
        """
        with self._turn:
            number = next(self._numbers)
            judge = self._running_judge()
            self._current = number
            try:
                yield from self._conversation(judge, number, request)
            finally:
                self._current = None
                self._cancelled.discard(number)

    def describe(self, exercise_folder: str) -> tuple[CheckDescription, ...]:
        """Return what the judge knows of an exercise's checks. Blocks, and waits for a grading to end.

        Raises `CourseError` for a broken exercise, and `GradingError` as `grade` does.
        """
        with self._turn:
            number = next(self._numbers)
            judge = self._running_judge()
            try:
                judge.write({"op": "describe", "id": number, "exercise_folder": exercise_folder})
                return description_from_json(next(each for each in judge.answers() if each.get("id") == number))
            except (FrameError, OSError, ValueError) as error:
                self._forget(judge)
                raise _stopped(judge, exercise_folder) from error

    def cancel(self) -> None:
        """End the running grading, from any thread. Its iterator ends with `Cancelled`."""
        number, judge = self._current, self._judge
        if number is None or judge is None:
            return
        self._cancelled.add(number)
        with contextlib.suppress(OSError, ValueError):
            judge.write({"op": "cancel", "id": number})
        timer = threading.Timer(CANCEL_GRACE_S, self._kill_if_still_at, (judge, number))
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End the judge and all that it started."""
        with self._starting:
            judge, self._judge = self._judge, None
        if judge is not None:
            judge.close()

    def _conversation(self, judge: JudgeProcess, number: int, request: GradeRequest) -> Iterator[GradingEvent]:
        ended = False
        try:
            judge.write({"op": "grade", "id": number, "request": request_to_json(request)})
            answers = judge.answers()
            while not ended:
                header = next(answers)
                if header.get("id") != number:
                    continue  # the tail of a grading that was given up
                event = event_from_json(header)
                ended = isinstance(event, GradingFinished | GradingCancelled)
                yield event
        except (FrameError, OSError, ValueError) as error:
            self._forget(judge)
            if number not in self._cancelled:
                raise _stopped(judge, request.exercise_folder) from error
            yield GradingCancelled()
        finally:
            if not ended and number not in self._cancelled:
                self.cancel()  # the caller stopped listening

    def _running_judge(self) -> JudgeProcess:
        with self._starting:
            if self._judge is None or self._judge.poll() is not None:
                self._judge = JudgeProcess((*self._arguments, *(["--once"] if self._once else [])))
            return self._judge

    def _kill_if_still_at(self, judge: JudgeProcess, number: int) -> None:
        if self._current == number:
            judge.kill()

    def _forget(self, judge: JudgeProcess) -> None:
        judge.forget()
        with self._starting:
            if self._judge is judge:
                self._judge = None


def _stopped(judge: JudgeProcess, exercise_folder: str) -> GradingError:
    advice = f"Try again. If it stays so, run `gpututor doctor` and look at {paths.log_file()}."
    title = "The judge stopped in the middle of a grading."
    if judge.silent_s:
        title = f"The judge said nothing for {judge.silent_s:.0f} s, so it was ended: it hangs, or was stopped."
    elif judge.has_ended_itself:
        title = f"The judge stopped in the middle of a grading of {exercise_folder}: it ended itself."
        advice = f"Remove os._exit() and the like from checks.py and given.py of that folder. {advice}"
    return GradingError(title, advice)
