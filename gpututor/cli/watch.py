"""Grade your file now, and again each time you save it in your own editor.

While it watches, type a letter and Enter: n opens the next exercise, h shows a hint, r grades again, q leaves.
Every grading is recorded as `gpututor grade` records it. Without EXERCISE: the one that was open last, here or in the
app. Where the app opens stays as it is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpututor.cli.fitting import fitting
from gpututor.cli.grade import print_event
from gpututor.cli.gradings import Client, Gradings
from gpututor.cli.hint import show_hints
from gpututor.cli.keeping import Keeping
from gpututor.cli.keyboard import Keyboard
from gpututor.cli.machine_options import add_device_arguments, check_one_model, settle_device
from gpututor.cli.places import check_own_file, chosen_course, chosen_workspace, open_progress, tell
from gpututor.cli.watched_file import Happened, WatchedFile
from gpututor.course.exercise import Course, Exercise
from gpututor.course.workspace import Workspace
from gpututor.errors import TutorError
from gpututor.grading.client import QUICKEST, GradingClient
from gpututor.grading.events import Graded, GradeRequest
from gpututor.grading.report import Outcome, Report
from gpututor.plain_text import visible
from gpututor.progress.database import briefly

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
        return Watcher(desk, client, clears=clears).watch(exercise, Keyboard())
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
        self._gradings = Gradings(client)
        self._clears = clears
        self._clock = clock

    def watch(self, exercise: Exercise, keyboard: Keyboard) -> int:
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
        self._file = WatchedFile(self._desk.workspace.path_of(exercise), self._clock)
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

    def _tell_of_file(self, happened: Happened) -> None:
        match happened:
            case Happened.CHANGED:
                self._stop()
            case Happened.RESTED:
                self._begin()
            case Happened.GONE:
                words = f"{visible(str(self._file.path))} is gone. It is graded again when it is back."
                print(fitting(words), flush=True)
            case Happened.BACK:
                print(f"{visible(self._file.path.name)} is back.", flush=True)

    def _stop(self) -> None:
        if self._gradings.stop():
            print("  stopped", flush=True)

    def _begin(self) -> None:
        """Grade what the file holds now."""
        self._stop()
        self._file.was_read()
        print(CLEAR if self._clears else "", end="" if self._clears else "\n")
        print(fitting(f"{self._exercise.label} {visible(self._exercise.title)}"), flush=True)
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
        self._gradings.begin(request, Keeping(desk.course))

    def _tell_of_grading(self) -> None:
        for grading, event in self._gradings.heard():
            if isinstance(event, TutorError):
                tell(event)
                self._tell_how_to_go_on(None)
                continue
            print_event(event, grading.request.submission)
            if isinstance(event, Graded):
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
        print(fitting(f"Watching {visible(str(self._file.path))}: saving it grades it again.\n{KEYS}"), flush=True)
