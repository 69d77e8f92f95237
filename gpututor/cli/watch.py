"""Grade your file each time you save it in your own editor.

While it watches, type a letter and Enter: n opens the next exercise, h shows a hint, r grades again, q leaves.
Every grading is recorded, as with `gpututor grade`. Without EXERCISE, it watches the exercise that was opened last,
here or in the app. The app still opens the exercise that you left there.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path

from gpututor.cli.device_options import add_device_arguments, check_one_model, settle_device
from gpututor.cli.grade import print_event
from gpututor.cli.grading import save_attempt
from gpututor.cli.hint import show_hints
from gpututor.cli.options import (
    attempt_writer,
    check_own_file,
    chosen_course,
    chosen_workspace,
    open_progress,
    print_error,
)
from gpututor.cli.terminal import LineReader, ProgressLine, fitting
from gpututor.course.model import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.files import stamp_of
from gpututor.grading.client import QUICKEST, GradingClient, GradingService
from gpututor.grading.events import GradeRequest, GradingCancelled, GradingEvent, GradingFinished
from gpututor.grading.report import Outcome, Report
from gpututor.progress.database import briefly
from gpututor.progress.gradings import Gradings
from gpututor.text import escape_control_chars

REST_S = 0.2
"""Seconds that the file must rest after a change: editors write in several steps."""
GONE_AFTER_S = 0.5
"""Seconds until a missing file counts as gone: some editors remove it while saving."""
POLL_S = 0.05
CLEAR = "\x1b[H\x1b[2J"
KEYS = "n next, h hint, r again, q quit: a letter, then Enter."


class FileChange(Enum):
    """A change of the file since the last poll."""

    CHANGED = auto()
    RESTED = auto()
    """Changed, then unchanged for `REST_S`: it can be read."""
    GONE = auto()
    BACK = auto()


class FileWatcher:
    """Changes of a file, found by polling; each poll costs one stat."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = stamp_of(path)
        self._changed_at: float | None = None
        """Time of the last change; None once it rested or was read."""
        self._gone_at: float | None = None
        self._is_gone = False
        """True once `GONE` was returned."""

    def poll(self) -> tuple[FileChange, ...]:
        """Return the changes since the last poll, in this order."""
        now, stamp = time.monotonic(), stamp_of(self.path)
        if stamp is None:
            self._gone_at = now if self._gone_at is None else self._gone_at
            if self._is_gone or now - self._gone_at < GONE_AFTER_S:
                return ()
            self._is_gone, self._stamp = True, None
            return (FileChange.GONE,)
        changes = [FileChange.BACK] if self._is_gone else []
        self._gone_at, self._is_gone = None, False
        if stamp != self._stamp:
            self._stamp, self._changed_at = stamp, now
            changes.append(FileChange.CHANGED)
        if self._changed_at is not None and now - self._changed_at >= REST_S:
            self._changed_at = None
            changes.append(FileChange.RESTED)
        return tuple(changes)

    def mark_as_read(self) -> None:
        """Forget a change that has not rested yet."""
        self._changed_at = None


@dataclass(frozen=True)
class WatchOptions:
    """The course, the workspace and the device of a watch."""

    course: Course
    workspace: Workspace
    device: str = "auto"
    gpu: str | None = None
    gpus: int | None = None
    from_settings: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="EXERCISE", nargs="?", help="2.1, born_on_the_device, or a path")
    add_device_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    check_one_model(arguments, "watch")
    from_settings = settle_device(arguments, by_settings=True)
    course = chosen_course(arguments)
    exercise = course.find(arguments.exercise) if arguments.exercise else _last_opened(course)
    course.check_has_checks(exercise)
    workspace = chosen_workspace(arguments, course)
    if arguments.exercise:
        check_own_file(arguments.exercise, exercise, workspace.path_of(exercise), "grade")
    client = GradingClient(workers=QUICKEST)
    options = WatchOptions(course, workspace, arguments.device, arguments.gpu, arguments.gpus, from_settings)
    clears = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    try:
        return Watcher(options, client, clears=clears).watch(exercise, LineReader())
    except KeyboardInterrupt:
        print()  # after the ^C that the terminal shows
        raise
    finally:
        client.close()


def _last_opened(course: Course) -> Exercise:
    with open_progress(course) as progress:
        return course.continue_at(progress.exercise_opened_last())


class Watcher:
    """A loop over typed lines, file changes and grading events of one exercise at a time. Prints in this thread."""

    def __init__(self, options: WatchOptions, client: GradingService, *, clears: bool = False) -> None:
        self._options = options
        self._writer = attempt_writer(options.course)
        self._client = client
        self._events: queue.SimpleQueue[tuple[int, GradingEvent | TutorError]] = queue.SimpleQueue()
        self._gradings = Gradings(
            self._follow, client.cancel, lambda *event: self._events.put(event), lambda: self._writer.recordings
        )
        self._source = ""
        """The text that is graded, or was graded last."""
        self._is_grading = False
        self._clears = clears

    def watch(self, exercise: Exercise, keyboard: LineReader) -> int:
        """Watch until the learner quits; return the exit code."""
        self._open(exercise)
        while True:
            lines = keyboard.lines(POLL_S)
            if lines is None or not all(self._handle_line(line.strip().lower()) for line in lines):
                self._stop()
                return 0
            for change in self._file.poll():
                self._handle_change(change)
            while not self._events.empty():
                self._handle_event(*self._events.get())

    def _follow(self, request: GradeRequest) -> Iterator[GradingEvent]:
        """Grade with a progress line. For a thread."""
        with ProgressLine() as progress:
            yield from progress.follow(self._client.grade(request))

    def _handle_line(self, word: str) -> bool:
        """Do what a typed line says; return False to quit."""
        match word:
            case "q" | "quit" | "exit":
                return False
            case "n" | "next":
                following = self._options.course.after(self._exercise)
                if following is None:
                    print("This is the last exercise of the course.", flush=True)
                else:
                    self._open(following)
            case "h" | "hint":
                print()
                self._try(lambda: show_hints(self._options.course, self._exercise))
            case "r" | "run":
                self._grade()
            case _:
                print(KEYS, flush=True)
        return True

    def _open(self, exercise: Exercise) -> None:
        self._stop()
        self._exercise = exercise
        self._try(lambda: self._options.workspace.ensure(exercise))
        self._try(self._save_exercise)
        self._file = FileWatcher(self._options.workspace.path_of(exercise))
        self._grade()

    def _save_exercise(self) -> None:
        with open_progress(self._options.course, briefly) as progress:
            progress.set_watched_exercise(self._exercise.key)

    def _try(self, act: Callable[[], object]) -> None:
        """Call `act`; print an error and continue."""
        try:
            act()
        except TutorError as error:
            print_error(error)
        sys.stdout.flush()

    def _handle_change(self, change: FileChange) -> None:
        match change:
            case FileChange.CHANGED:
                self._stop()
            case FileChange.RESTED:
                self._grade()
            case FileChange.GONE:
                words = f"{escape_control_chars(str(self._file.path))} is gone. gpututor grades it when it is back."
                print(fitting(words), flush=True)
            case FileChange.BACK:
                print(f"{escape_control_chars(self._file.path.name)} is back.", flush=True)

    def _stop(self) -> None:
        self._gradings.stop()
        if self._is_grading:
            self._is_grading = False
            print("  stopped", flush=True)

    def _grade(self) -> None:
        """Grade the current content of the file."""
        self._stop()
        self._file.mark_as_read()
        options, exercise = self._options, self._exercise
        print(CLEAR if self._clears else "", end="" if self._clears else "\n")
        print(fitting(f"{exercise.label} {escape_control_chars(exercise.title)}"), flush=True)
        if options.from_settings:
            print(fitting(f"  {options.from_settings}"), flush=True)
        try:
            options.course.check_has_checks(exercise)
            self._source = options.workspace.read(exercise)
        except TutorError as error:
            print_error(error)
            self._print_next_steps(None)
            return
        folder, name = str(exercise.folder), self._file.path.name
        self._gradings.start(GradeRequest(folder, self._source, name, options.device, options.gpu, options.gpus))
        self._is_grading = True

    def _handle_event(self, number: int, event: GradingEvent | TutorError) -> None:
        if self._gradings.is_over(number):
            if isinstance(event, GradingFinished):
                self._gradings.discard(number)
            return
        self._is_grading = not isinstance(event, GradingFinished | GradingCancelled | TutorError)
        if isinstance(event, TutorError):
            print_error(event)
            self._print_next_steps(None)
            return
        show = partial(print_event, event, self._source, self._exercise)
        if isinstance(event, GradingFinished):
            save_attempt(self._writer, self._gradings.finished(number, event.report, self._source), show)
            self._print_next_steps(event.report)
        else:
            show()

    def _print_next_steps(self, report: Report | None) -> None:
        print()
        if report is not None and report.outcome is Outcome.PASSED:
            following = self._options.course.after(self._exercise)
            if following is None:
                print("This was the last exercise of the course.")
            else:
                print(fitting(f"Next, with n and Enter: {following.label} {escape_control_chars(following.title)}."))
            print(fitting(f"`gpututor diff {self._exercise.label}` compares your file with the solution."))
        path = escape_control_chars(str(self._file.path))
        print(fitting(f"Watching {path}: saving it grades it again.\n{KEYS}"), flush=True)
