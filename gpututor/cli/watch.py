"""Grade your file now, and again each time you save it in your own editor.

While it watches, type a letter and Enter: n opens the next exercise, h shows a hint, r grades again, q leaves.
Every grading is recorded as `gpututor grade` records it. Without EXERCISE: the one where you left off.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from gpututor.cli.fitting import fitting
from gpututor.cli.grade import add_device_arguments, check_one_device, print_event
from gpututor.cli.hint import show_hints
from gpututor.cli.keeping import Keeping
from gpututor.cli.keyboard import Keyboard
from gpututor.cli.places import check_own_file, chosen_course, chosen_workspace, open_progress, tell
from gpututor.cli.still_grading import StillGrading
from gpututor.course.exercise import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import GradingError, TutorError
from gpututor.grading.client import GradingClient
from gpututor.grading.events import Cancelled, Graded, GradeRequest, GradingEvent
from gpututor.grading.report import Outcome, Report
from gpututor.plain_text import visible

LOOK_EVERY_S = 0.05
REST_S = 0.2
"""How long the file must rest after a change: editors write in several steps."""
GONE_AFTER_S = 0.5
"""How long the file must be away to be called gone: some editors take it away when they save."""
CLEAR = "\x1b[H\x1b[2J"
KEYS = "n next, h hint, r again, q quit: a letter, then Enter."

Stamp = tuple[int, int, int]


class Client(Protocol):
    """What is needed of `gpututor.grading.client.GradingClient`."""

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]: ...

    def cancel(self) -> None: ...


@dataclass(frozen=True)
class Desk:
    """Where the learner works, and on what devices it is graded."""

    course: Course
    workspace: Workspace
    device: str = "auto"
    gpu: str | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class _Grading:
    """One submission that is being graded."""

    number: int
    request: GradeRequest
    keeping: Keeping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="EXERCISE", nargs="?", help="2.1, born_on_the_device, or a path")
    add_device_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    check_one_device(arguments, "watch")
    course = chosen_course(arguments)
    exercise = course.find(arguments.exercise) if arguments.exercise else _where_left(course)
    workspace = chosen_workspace(arguments, course)
    if arguments.exercise:
        check_own_file(arguments.exercise, exercise, workspace.path_of(exercise), "grade")
    client = GradingClient()
    desk = Desk(course, workspace, arguments.device, arguments.gpu, arguments.gpus)
    clears = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    try:
        return Watcher(desk, client, clears=clears).watch(exercise, Keyboard())
    except KeyboardInterrupt:
        print()  # behind the ^C that the terminal shows
        raise
    finally:
        client.close()


def _where_left(course: Course) -> Exercise:
    with open_progress(course) as progress:
        key = progress.current_exercise()
    return next((exercise for exercise in course.exercises if exercise.key == key), course.exercises[0])


class Watcher:
    """Looks at one file at a time. The caller's thread prints; gradings run in threads of their own."""

    def __init__(
        self, desk: Desk, client: Client, *, clears: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._desk = desk
        self._client = client
        self._clears = clears
        self._clock = clock
        self._exercise = desk.course.exercises[0]
        self._stamp: Stamp | None = None
        self._changed_at: float | None = None
        """When the file was last seen to change; None once that change is being graded."""
        self._gone_at: float | None = None
        self._is_gone = False
        """Whether the learner was told so."""
        self._run = 0
        """The number of the newest grading; what older ones say is not heard."""
        self._is_on = False
        """Whether its end is still to come."""
        self._events: queue.SimpleQueue[tuple[_Grading, GradingEvent | TutorError]] = queue.SimpleQueue()
        self._turn = threading.Lock()

    def watch(self, exercise: Exercise, keyboard: Keyboard) -> int:
        """Watch until the learner leaves; the exit code."""
        self._open(exercise)
        while True:
            lines = keyboard.lines(LOOK_EVERY_S)
            if lines is None or not all(self._obey(line.strip().lower()) for line in lines):
                self._stop()
                return 0
            self._look()
            self._tell_events()

    # What the learner asks for

    def _obey(self, word: str) -> bool:
        """Do what a line asks for; False when it is to leave."""
        match word:
            case "q" | "quit" | "exit":
                return False
            case "n" | "next":
                following = self._desk.course.after(self._exercise)
                if following is None:
                    print("This is the last exercise of the course.", flush=True)
                else:
                    self._open(following)
            case "h" | "hint":
                print()
                self._guarded(lambda: show_hints(self._desk.course, self._exercise))
            case "r" | "run":
                self._begin()
            case _:
                print(KEYS, flush=True)
        return True

    def _open(self, exercise: Exercise) -> None:
        self._stop()
        self._exercise = exercise
        self._guarded(lambda: self._desk.workspace.ensure(exercise))
        self._guarded(self._remember_place)
        self._stamp, self._gone_at, self._is_gone = _stamp(self._path), None, False
        self._begin()

    def _remember_place(self) -> None:
        with open_progress(self._desk.course) as progress:
            progress.set_current_exercise(self._exercise.key)

    def _guarded(self, act: Callable[[], object]) -> None:
        """Do it; what keeps it from being done is told, and the watch goes on."""
        try:
            act()
        except TutorError as error:
            tell(error)
        sys.stdout.flush()

    # The file

    @property
    def _path(self) -> Path:
        return self._desk.workspace.path_of(self._exercise)

    def _look(self) -> None:
        """Notice a change, and grade once it rests."""
        now, stamp = self._clock(), _stamp(self._path)
        if stamp is None:
            self._notice_absence(now)
            return
        if self._is_gone:
            print(f"{visible(self._path.name)} is back.", flush=True)
        self._gone_at, self._is_gone = None, False
        if stamp != self._stamp:
            self._stamp, self._changed_at = stamp, now
            self._stop()
        if self._changed_at is not None and now - self._changed_at >= REST_S:
            self._begin()

    def _notice_absence(self, now: float) -> None:
        self._gone_at = now if self._gone_at is None else self._gone_at
        if not self._is_gone and now - self._gone_at >= GONE_AFTER_S:
            self._is_gone, self._stamp = True, None
            print(fitting(f"{visible(str(self._path))} is gone. It is graded again when it is back."), flush=True)

    # Grading

    def _stop(self) -> None:
        """Let nobody hear any more of the grading that is on."""
        self._run += 1
        if self._is_on:
            self._is_on = False
            print("  stopped", flush=True)
        self._client.cancel()

    def _begin(self) -> None:
        """Grade what the file holds now."""
        self._stop()
        self._changed_at = None
        print(CLEAR if self._clears else "", end="" if self._clears else "\n")
        print(fitting(f"{self._exercise.label} {visible(self._exercise.title)}"), flush=True)
        try:
            source = self._desk.workspace.read(self._exercise)
        except TutorError as error:
            tell(error)
            self._tell_how_to_go_on(None)
            return
        desk, keeping = self._desk, Keeping(self._desk.course)
        request = GradeRequest(
            str(self._exercise.folder), source, self._path.name, device=desk.device, gpu=desk.gpu, gpus=desk.gpus
        )
        self._is_on = True
        grading = _Grading(self._run, keeping.asked(request), keeping)
        threading.Thread(target=self._grade, args=(grading,), daemon=True).start()

    def _grade(self, grading: _Grading) -> None:
        with self._turn:
            try:
                ended = self._hear(grading)
            except TutorError as error:
                ended = error
            except Exception as error:
                ended = GradingError(f"The grader stopped in an unexpected way: {error!r}", "Save again.")
        if isinstance(ended, Graded) and grading.number == self._run:
            self._events.put((grading, ended))
            return
        grading.keeping.discard()
        if isinstance(ended, TutorError):
            self._events.put((grading, ended))

    def _hear(self, grading: _Grading) -> GradingEvent | TutorError:
        """Pass on what happens; returns how it ended."""
        if grading.number != self._run:
            return Cancelled()
        with StillGrading() as still:
            for event in still.heard(self._client.grade(grading.request)):
                if isinstance(event, Graded | Cancelled):
                    return event
                self._events.put((grading, event))
                if grading.number != self._run:
                    self._client.cancel()  # stopped in the moment before the client had begun
        return GradingError("The grader ended without a report.", "Save again.")

    def _tell_events(self) -> None:
        while True:
            try:
                grading, event = self._events.get_nowait()
            except queue.Empty:
                return
            if grading.number != self._run or not self._is_on:
                if isinstance(event, Graded):
                    grading.keeping.discard()
            elif isinstance(event, TutorError):
                self._is_on = False
                tell(event)
                self._tell_how_to_go_on(None)
            else:
                print_event(event, grading.request.submission)
                if isinstance(event, Graded):
                    self._is_on = False
                    self._guarded(partial(grading.keeping.keep, event.report, grading.request.submission))
                    self._tell_how_to_go_on(event.report)

    def _tell_how_to_go_on(self, report: Report | None) -> None:
        print()
        if report is not None and report.outcome is Outcome.PASSED:
            following = self._desk.course.after(self._exercise)
            if following is None:
                print("This was the last exercise of the course.")
            else:
                print(fitting(f"n and Enter go on to {following.label} {visible(following.title)}."))
        print(fitting(f"Watching {visible(str(self._path))}: saving it grades it again.\n{KEYS}"), flush=True)


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
