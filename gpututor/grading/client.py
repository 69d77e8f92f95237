"""Client of the judge: starts, warms and cancels it, and yields its events. No torch here."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Protocol

from gpututor import paths
from gpututor.errors import GradingError

if TYPE_CHECKING:
    from gpututor.grading.description import CheckDescription
    from gpututor.grading.events import GradeRequest, GradingEvent
    from gpututor.grading.judge_process import JudgeProcess

CANCEL_GRACE_S = 0.5
"""Seconds for the judge to answer a cancel, before it is killed with everything that it started."""

IsolationName = Literal["process", "bubblewrap"]
WorkersName = Literal["spare", "fork server"]
QUICKEST: WorkersName = "fork server" if sys.platform == "linux" else "spare"
"""The best choice for several gradings. A fork server imports PyTorch once, then starts workers in milliseconds."""


class GradingService(Protocol):
    """A grader for the app: a judge process, or a script in tests."""

    def warm(self) -> None: ...

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class GradingClient:
    """A judge process, started at the first use and again after it died.

    `isolation`: if it is not available, gradings end with `not gradable here`.
    `workers`: `spare` starts a Python process for each worker, ahead of need; `fork server` forks them from a
    process that has imported torch. `once`: only one grading, so no worker is started ahead of need after it.
    """

    def __init__(
        self, isolation: IsolationName = "process", workers: WorkersName = "spare", *, once: bool = False
    ) -> None:
        self._arguments = ("--isolation", isolation, "--workers", workers, *(("--once",) if once else ()))
        self._numbers = itertools.count()
        self._judge: JudgeProcess | None = None
        self._starting = threading.Lock()
        self._turn = threading.Lock()
        self._current: int | None = None
        self._cancelled: set[int] = set()

    def warm(self) -> None:
        """Start the judge, which starts a worker; return at once. Raises `GradingError` if it cannot be started."""
        self._running_judge()

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
        """Grade, and yield events as they happen; the last is `GradingFinished` or `GradingCancelled`.

        Blocks: iterate in a thread. One grading runs at a time: a second call waits for the end of the first grading,
        so cancel that first. Raises `GradingError` if the judge cannot be started, broke, or was silent for too long.
        """
        with self._turn:
            number, judge = next(self._numbers), self._running_judge()
            self._current = number
            try:
                yield from self._events_of(judge, number, request)
            finally:
                self._current = None
                self._cancelled.discard(number)

    def describe(self, exercise_folder: str) -> tuple[CheckDescription, ...]:
        """Describe an exercise's checks, after a running grading. Raises what `grade` raises, and `CourseError`."""
        from gpututor.grading.description import description_from_json
        from gpututor.protocol.frames import FrameError

        with self._turn:
            number, judge = next(self._numbers), self._running_judge()
            try:
                judge.write({"op": "describe", "id": number, "exercise_folder": exercise_folder})
                return description_from_json(next(header for header in judge.answers() if header.get("id") == number))
            except (FrameError, OSError, ValueError) as error:
                self._forget(judge)
                raise _stopped(judge, exercise_folder) from error

    def cancel(self) -> None:
        """End the running grading, from any thread. Its iterator ends with `GradingCancelled`."""
        number, judge = self._current, self._judge
        if number is None or judge is None:
            return
        self._cancelled.add(number)
        with contextlib.suppress(OSError, ValueError):  # the judge is gone, which also ends the grading
            judge.write({"op": "cancel", "id": number})
        timer = threading.Timer(CANCEL_GRACE_S, lambda: judge.kill() if self._current == number else None)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End the judge and everything that it started."""
        with self._starting:
            judge, self._judge = self._judge, None
        if judge is not None:
            judge.close()

    def _events_of(self, judge: JudgeProcess, number: int, request: GradeRequest) -> Iterator[GradingEvent]:
        # Imported late, with reports: the app's first paint does not need them.
        from gpututor.grading.events import GradingCancelled, GradingFinished, event_from_json, request_to_json
        from gpututor.protocol.frames import FrameError

        ended = False
        try:
            judge.write({"op": "grade", "id": number, "request": request_to_json(request)})
            answers = judge.answers()
            while not ended:
                header = next(answers)
                if header.get("id") != number:
                    continue  # the rest of an abandoned grading
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
                from gpututor.grading.judge_process import JudgeProcess  # 2 ms, and the first paint needs no judge

                self._judge = JudgeProcess(self._arguments)
            return self._judge

    def _forget(self, judge: JudgeProcess) -> None:
        judge.forget()
        with self._starting:
            if self._judge is judge:
                self._judge = None


def _stopped(judge: JudgeProcess, exercise_folder: str) -> GradingError:
    advice = f"Try again. If it fails again, run `gpututor doctor` and look at {paths.log_file()}."
    title = "The judge stopped during a grading."
    if judge.silent_s:
        title = f"The judge did not respond for {judge.silent_s:.0f} s and was stopped."
    elif judge.has_ended_itself:
        title = f"The judge stopped during a grading of {exercise_folder}: it ended itself."
        advice = f"Remove os._exit() and the like from checks.py and given.py of that folder. {advice}"
    return GradingError(title, advice)
