"""Gradings in threads of their own, one after the other; the caller's thread hears only the newest."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gpututor.cli.keeping import Keeping
from gpututor.cli.still_grading import StillGrading
from gpututor.errors import GradingError, TutorError
from gpututor.grading.events import Cancelled, Graded, GradeRequest, GradingEvent


class Client(Protocol):
    """What is needed of `gpututor.grading.client.GradingClient`."""

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]: ...

    def cancel(self) -> None: ...


@dataclass(frozen=True)
class Grading:
    """One submission that is being graded."""

    number: int
    request: GradeRequest
    keeping: Keeping


class Gradings:
    """Begun, stopped and heard by one thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._newest = 0
        """The number of the newest grading; what older ones say is not heard."""
        self._is_on = False
        """Whether its end is still to come."""
        self._events: queue.SimpleQueue[tuple[Grading, GradingEvent | TutorError]] = queue.SimpleQueue()
        self._turn = threading.Lock()

    def begin(self, request: GradeRequest, keeping: Keeping) -> None:
        """Grade from now on; none is on, see `stop`."""
        self._is_on = True
        grading = Grading(self._newest, keeping.asked(request), keeping)
        threading.Thread(target=self._grade, args=(grading,), daemon=True).start()

    def stop(self) -> bool:
        """Let nobody hear any more of the grading that is on; whether there was one."""
        was_on, self._is_on = self._is_on, False
        self._newest += 1
        self._client.cancel()
        return was_on

    def heard(self) -> Iterator[tuple[Grading, GradingEvent | TutorError]]:
        """What came since; a `Graded` or an error is the grading's end. Whoever hears `Graded` keeps the attempt."""
        while True:
            try:
                grading, event = self._events.get_nowait()
            except queue.Empty:
                return
            if grading.number != self._newest or not self._is_on:
                if isinstance(event, Graded):
                    grading.keeping.discard()
                continue
            if isinstance(event, Graded | TutorError):
                self._is_on = False
            yield grading, event

    def _grade(self, grading: Grading) -> None:
        with self._turn:
            try:
                ended = self._follow(grading)
            except TutorError as error:
                ended = error
            except Exception as error:
                ended = GradingError(f"The grader stopped in an unexpected way: {error!r}", "Save again.")
        if isinstance(ended, Graded) and grading.number == self._newest:
            self._events.put((grading, ended))
            return
        grading.keeping.discard()
        if isinstance(ended, TutorError):
            self._events.put((grading, ended))

    def _follow(self, grading: Grading) -> GradingEvent | TutorError:
        """Pass on what happens; returns how it ended."""
        if grading.number != self._newest:
            return Cancelled()
        with StillGrading() as still:
            for event in still.heard(self._client.grade(grading.request)):
                if isinstance(event, Graded | Cancelled):
                    return event
                self._events.put((grading, event))
                if grading.number != self._newest:
                    self._client.cancel()  # stopped in the moment before the client had begun
        return GradingError("The grader ended without a report.", "Save again.")
