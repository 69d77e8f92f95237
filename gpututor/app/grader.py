"""Follows the grading client in a thread and posts what happens as messages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from textual.message import Message

from gpututor.app.messages import (
    CallBegan,
    CheckAnswered,
    DeviceWaitedFor,
    PairTimed,
    RunBroke,
    RunCancelled,
    ScenarioStarted,
    SubmissionGraded,
)
from gpututor.errors import GradingError, TutorError
from gpututor.grading.events import (
    CallStarted,
    Cancelled,
    DeviceAwaited,
    Graded,
    GradeRequest,
    GradingEvent,
    RunStarted,
    TimingAdvanced,
    VerdictReached,
)


class Client(Protocol):
    """What the app needs of `gpututor.grading.client.GradingClient`."""

    def warm(self) -> None: ...

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class Grader:
    """Runs one submission at a time; each run has a number, so that late messages of an older one can be told apart.

    Threads are daemons: leaving the app never waits for a grader that hangs.
    """

    def __init__(self, client: Client, post: Callable[[Message], object]) -> None:
        self._client = client
        self._post = post
        self.run = 0
        """The number of the newest run."""
        self._stopped = 0
        """The number of the newest run that the learner stopped."""
        self._turn = threading.Lock()

    def warm(self) -> None:
        """Start the judge while the learner reads."""
        self._in_thread(self._warm)

    def start(self, request: GradeRequest) -> int:
        """Begin a run and return its number."""
        self.run += 1
        run = self.run
        self._in_thread(lambda: self._follow(run, request))
        return run

    def cancel(self) -> None:
        """Stop the run. The client only writes a line to the judge, so this does not wait."""
        self._stopped = self.run
        self._client.cancel()

    def is_over(self, run: int) -> bool:
        """Whether nobody waits for this run any more: it was stopped, or a newer one has begun."""
        return run < self.run or run <= self._stopped

    def _warm(self) -> None:
        try:
            self._client.warm()
        except TutorError:
            # The same fault comes back, with its dialog, when the learner asks for a run.
            return

    def _follow(self, run: int, request: GradeRequest) -> None:
        self._client.cancel()  # a run that is still on: the newer text is what counts
        with self._turn:
            self._grade(run, request)

    def _grade(self, run: int, request: GradeRequest) -> None:
        if self.is_over(run):
            self._post(RunCancelled(run))
            return
        try:
            for event in self._client.grade(request):
                self._post(_message(run, event))
                if isinstance(event, Graded | Cancelled):
                    return
                if self.is_over(run):
                    # Stopped in the moment before the client had begun, when a cancel finds nothing to end.
                    self._client.cancel()
            error: TutorError = GradingError("The grader ended without a report.", "Run again.")
        except TutorError as known:
            error = known
        except Exception as unknown:
            error = _logged(unknown)
        self._post(RunBroke(run, error))

    @staticmethod
    def _in_thread(work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()


def _message(run: int, event: GradingEvent) -> Message:
    match event:
        case RunStarted(scenario, device, number, of):
            return ScenarioStarted(run, scenario, device, number, of)
        case CallStarted(number, of):
            return CallBegan(run, number, of)
        case DeviceAwaited(device):
            return DeviceWaitedFor(run, device)
        case TimingAdvanced(_, pairs, most_pairs):
            return PairTimed(run, pairs, most_pairs)
        case VerdictReached(verdict):
            return CheckAnswered(run, verdict)
        case Graded(report):
            return SubmissionGraded(run, report)
        case Cancelled():
            return RunCancelled(run)


def _logged(error: Exception) -> GradingError:
    from gpututor.app.log import write_log

    write_log(error)
    title = f"The grader stopped in an unexpected way: {error!r}"
    return GradingError(title, "Run again. Your file is not at fault.")
