"""`gpututor watch`: grades a file each time it is saved.

While it watches, type a letter and Enter: n opens the next exercise, h shows a hint, r grades again, q leaves.
Every grading is recorded as `gpututor grade` records it. Without EXERCISE: the one that was open last, here or in the
app. Where the app opens stays as it is.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpututor.cli.device_options import add_device_arguments, check_one_model, settle_device
from gpututor.cli.grade import print_event, save_attempt
from gpututor.cli.hint import show_hints
from gpututor.cli.options import attempt_writer, check_own_file, chosen_course, chosen_workspace, open_progress, tell
from gpututor.cli.terminal import LineReader, ProgressLine, fitting
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import GradingError, TutorError
from gpututor.grading.client import QUICKEST, GradingClient
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingEvent, GradingFinished
from gpututor.grading.report import Outcome, Report
from gpututor.progress.database import briefly
from gpututor.text import escape_control_chars

if TYPE_CHECKING:
    from gpututor.progress.recordings import Recordings


class Client(Protocol):
    """What is needed of `gpututor.grading.client.GradingClient`."""

    def grade(self, request: GradeRequest) -> Iterator[GradingEvent]: ...

    def cancel(self) -> None: ...


@dataclass(frozen=True)
class Grading:
    """One submission that is being graded."""

    number: int
    request: GradeRequest
    recording: Path | None
    """The pending folder of its recording."""


class Gradings:
    """Begun, stopped and heard by one thread."""

    def __init__(self, client: Client, recordings: Recordings) -> None:
        self._client = client
        self._recordings = recordings
        self._newest = 0
        """The number of the newest grading; what older ones say is not heard."""
        self._is_on = False
        """Whether its end is still to come."""
        self._events: queue.SimpleQueue[tuple[Grading, GradingEvent | TutorError]] = queue.SimpleQueue()
        self._turn = threading.Lock()

    def begin(self, request: GradeRequest) -> None:
        """Grade from now on; none is on, see `stop`."""
        self._is_on = True
        pending = self._recordings.create_pending()
        if pending is not None:
            request = replace(request, recording_folder=str(pending))
        grading = Grading(self._newest, request, pending)
        threading.Thread(target=self._grade, args=(grading,), daemon=True).start()

    def stop(self) -> bool:
        """Let nobody hear any more of the grading that is on; whether there was one."""
        was_on, self._is_on = self._is_on, False
        self._newest += 1
        self._client.cancel()
        return was_on

    def heard(self) -> Iterator[tuple[Grading, GradingEvent | TutorError]]:
        """What came since; a `Graded` or an error is the grading's end. Whoever hears `Graded` saves the attempt."""
        while True:
            try:
                grading, event = self._events.get_nowait()
            except queue.Empty:
                return
            if grading.number != self._newest or not self._is_on:
                if isinstance(event, GradingFinished):
                    self._recordings.discard(grading.recording)
                continue
            if isinstance(event, GradingFinished | TutorError):
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
        if isinstance(ended, GradingFinished) and grading.number == self._newest:
            self._events.put((grading, ended))
            return
        self._recordings.discard(grading.recording)
        if isinstance(ended, TutorError):
            self._events.put((grading, ended))

    def _follow(self, grading: Grading) -> GradingEvent | TutorError:
        """Pass on what happens; returns how it ended."""
        if grading.number != self._newest:
            return GradingCancelled()
        with ProgressLine() as still:
            for event in still.heard(self._client.grade(grading.request)):
                if isinstance(event, GradingFinished | GradingCancelled):
                    return event
                self._events.put((grading, event))
                if grading.number != self._newest:
                    self._client.cancel()  # stopped in the moment before the client had begun
        return GradingError("The grader ended without a report.", "Save again.")


REST_S = 0.2
"""How long the file must rest after a change: editors write in several steps."""
GONE_AFTER_S = 0.5
"""How long the file must be away to be called gone: some editors take it away when they save."""

Stamp = tuple[int, int, int]


class FileChange(Enum):
    """What became of the file since the last look."""

    CHANGED = auto()
    """It is another one than at the last look."""
    RESTED = auto()
    """It changed, and then rested: now it can be read."""
    GONE = auto()
    BACK = auto()


class FileWatcher:
    """Looked at now and then; each look costs one stat. How the file is at first is no change."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._changed_at: float | None = None
        """When it was last seen to change; None where nobody waits for it to rest."""
        self._gone_at: float | None = None
        self._is_gone = False
        """Whether that was told."""

    def look(self) -> tuple[FileChange, ...]:
        """What happened, in this order; mostly nothing."""
        now, stamp = self._clock(), _stamp(self.path)
        if stamp is None:
            return self._absent(now)
        happened = [FileChange.BACK] if self._is_gone else []
        self._gone_at, self._is_gone = None, False
        if stamp != self._stamp:
            self._stamp, self._changed_at = stamp, now
            happened.append(FileChange.CHANGED)
        if self._changed_at is not None and now - self._changed_at >= REST_S:
            self._changed_at = None
            happened.append(FileChange.RESTED)
        return tuple(happened)

    def was_read(self) -> None:
        """Somebody read it: a change of before need not rest any more."""
        self._changed_at = None

    def _absent(self, now: float) -> tuple[FileChange, ...]:
        self._gone_at = now if self._gone_at is None else self._gone_at
        if self._is_gone or now - self._gone_at < GONE_AFTER_S:
            return ()
        self._is_gone, self._stamp = True, None
        return (FileChange.GONE,)


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


LOOK_EVERY_S = 0.05
CLEAR = "\x1b[H\x1b[2J"
KEYS = "n next, h hint, r again, q quit: a letter, then Enter."


@dataclass(frozen=True)
class Desk:
    """Where the learner works, and on what devices it is graded."""

    course: Course
    workspace: Workspace
    device: str = "auto"
    gpu: str | None = None
    gpus: int | None = None
    from_settings: str = ""
    """Which of these come from the learner's settings, in words."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="EXERCISE", nargs="?", help="2.1, born_on_the_device, or a path")
    add_device_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    check_one_model(arguments, "watch")
    from_settings = settle_device(arguments, by_settings=True)
    course = chosen_course(arguments)
    course.check_has_checks()
    exercise = course.find(arguments.exercise) if arguments.exercise else _where_left(course)
    workspace = chosen_workspace(arguments, course)
    if arguments.exercise:
        check_own_file(arguments.exercise, exercise, workspace.path_of(exercise), "grade")
    client = GradingClient(workers=QUICKEST)
    desk = Desk(course, workspace, arguments.device, arguments.gpu, arguments.gpus, from_settings)
    clears = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    try:
        return Watcher(desk, client, clears=clears).watch(exercise, LineReader())
    except KeyboardInterrupt:
        print()  # behind the ^C that the terminal shows
        raise
    finally:
        client.close()


def _where_left(course: Course) -> Exercise:
    with open_progress(course) as progress:
        key = progress.exercise_opened_last()
    return next((exercise for exercise in course.exercises if exercise.key == key), course.exercises[0])


class Watcher:
    """A conversation about one file at a time. The caller's thread prints; gradings run in threads of their own."""

    def __init__(
        self, desk: Desk, client: Client, *, clears: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._desk = desk
        self._writer = attempt_writer(desk.course)
        self._gradings = Gradings(client, self._writer.recordings)
        self._clears = clears
        self._clock = clock

    def watch(self, exercise: Exercise, keyboard: LineReader) -> int:
        """Watch until the learner leaves; the exit code."""
        self._open(exercise)
        while True:
            lines = keyboard.lines(LOOK_EVERY_S)
            if lines is None or not all(self._obey(line.strip().lower()) for line in lines):
                self._stop()
                return 0
            for happened in self._file.look():
                self._tell_of_file(happened)
            self._tell_of_grading()

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
        self._file = FileWatcher(self._desk.workspace.path_of(exercise), self._clock)
        self._begin()

    def _remember_place(self) -> None:
        with open_progress(self._desk.course, briefly) as progress:
            progress.set_watched_exercise(self._exercise.key)

    def _guarded(self, act: Callable[[], object]) -> None:
        """Do it; what keeps it from being done is told, and the watch goes on."""
        try:
            act()
        except TutorError as error:
            tell(error)
        sys.stdout.flush()

    # What is told

    def _tell_of_file(self, happened: FileChange) -> None:
        match happened:
            case FileChange.CHANGED:
                self._stop()
            case FileChange.RESTED:
                self._begin()
            case FileChange.GONE:
                words = f"{escape_control_chars(str(self._file.path))} is gone. It is graded again when it is back."
                print(fitting(words), flush=True)
            case FileChange.BACK:
                print(f"{escape_control_chars(self._file.path.name)} is back.", flush=True)

    def _stop(self) -> None:
        if self._gradings.stop():
            print("  stopped", flush=True)

    def _begin(self) -> None:
        """Grade what the file holds now."""
        self._stop()
        self._file.was_read()
        print(CLEAR if self._clears else "", end="" if self._clears else "\n")
        print(fitting(f"{self._exercise.label} {escape_control_chars(self._exercise.title)}"), flush=True)
        if self._desk.from_settings:
            print(fitting(f"  {self._desk.from_settings}"), flush=True)
        try:
            source = self._desk.workspace.read(self._exercise)
        except TutorError as error:
            tell(error)
            self._tell_how_to_go_on(None)
            return
        desk = self._desk
        request = GradeRequest(
            str(self._exercise.folder), source, self._file.path.name, device=desk.device, gpu=desk.gpu, gpus=desk.gpus
        )
        self._gradings.begin(request)

    def _tell_of_grading(self) -> None:
        for grading, event in self._gradings.heard():
            if isinstance(event, TutorError):
                tell(event)
                self._tell_how_to_go_on(None)
                continue
            show = partial(print_event, event, grading.request.submission)
            if isinstance(event, GradingFinished):
                source = grading.request.submission
                save_attempt(self._writer, event.report, source, grading.recording, show)
                self._tell_how_to_go_on(event.report)
            else:
                show()

    def _tell_how_to_go_on(self, report: Report | None) -> None:
        print()
        if report is not None and report.outcome is Outcome.PASSED:
            following = self._desk.course.after(self._exercise)
            if following is None:
                print("This was the last exercise of the course.")
            else:
                print(fitting(f"n and Enter go on to {following.label} {escape_control_chars(following.title)}."))
        print(
            fitting(f"Watching {escape_control_chars(str(self._file.path))}: saving it grades it again.\n{KEYS}"),
            flush=True,
        )
