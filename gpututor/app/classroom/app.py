"""The classroom app: read and regrade a class in the terminal."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePath
from typing import Any, ClassVar

from textual.screen import Screen

from gpututor.app import runtime
from gpututor.app.base import BaseApp
from gpututor.app.classroom.class_screen import PAGES, ClassScreen
from gpututor.app.classroom.class_table import ClassSource, students_of
from gpututor.app.classroom.regrade_client import RegradeClient
from gpututor.app.classroom.submission_screen import SubmissionScreen
from gpututor.app.commands import SCREENS
from gpututor.app.runtime import GcScheduler
from gpututor.app.screens.palette import PaletteEntry
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.jobs import Options
from gpututor.classroom.review import review_of
from gpututor.classroom.rules import rules_for
from gpututor.errors import UsageError
from gpututor.grading.client import GradingClient
from gpututor.settings import SettingsFile


class ClassroomApp(BaseApp):
    """The app of a graded class."""

    TITLE = "gpututor classroom"
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        runtime.path_of(name) for name in (*runtime.FIRST, *runtime.LATER, runtime.CLASSROOM)
    ]

    def __init__(
        self,
        source: ClassSource,
        grading: RegradeClient,
        *,
        settings: SettingsFile | None = None,
        collector: GcScheduler | None = None,
    ) -> None:
        super().__init__(client=grading.client, settings=settings, collector=collector)
        self._source = source
        self._grading = grading

    def palette_entries(self, screen: Screen[Any], query: str) -> Iterator[PaletteEntry]:
        if isinstance(screen, ClassScreen):
            for number, page in enumerate(PAGES):
                yield PaletteEntry(page, f"Go to the page {page}.", partial(screen.action_page, number))
            yield from _of_table(screen, "class")
            for words, title in screen.exercise_titles:
                yield PaletteEntry(title, "Show the students of this exercise.", partial(screen.filter_by, words))
        elif isinstance(screen, SubmissionScreen):
            yield from _of_table(screen, "submission")
        yield PaletteEntry("Theme", "Choose other colors.", self.search_themes, ("colours", "dark", "light"))
        yield PaletteEntry("Quit", "Leave.", self.action_quit)
        if query and isinstance(screen, ClassScreen) and screen.table is not None:
            for row in itertools.islice(students_of(screen.table, query), MOST_STUDENTS):
                yield PaletteEntry(row.name, "Go to this student.", partial(screen.go_to, row.marks.student.id))

    def get_default_screen(self) -> Screen[Any]:
        return ClassScreen(self._source, self._grading)

    def rescue(self) -> str:
        return "No data of the class is lost."


MOST_STUDENTS = 20
"""The most students to offer: more would be slow to list, and a few more letters narrow them down."""


def _of_table(screen: Screen[Any], name: str) -> Iterator[PaletteEntry]:
    for command in SCREENS[name]:
        if command.palette is not None:
            yield PaletteEntry(
                command.title, command.help, partial(screen.run_action, command.bound[0][1]), command.palette
            )


def source_of(
    folder: ClassFolder, rules: Path | None = None, course_folder: Path | None = None, *, with_names: bool = True
) -> ClassSource:
    """Return a source that reads the class in a folder each time. `with_names`: False for pseudonyms."""

    def gradebook() -> Gradebook:
        return make_gradebook(folder, rules_for(folder, rules), course_folder, with_names=with_names)

    return ClassSource(folder.folder.name, gradebook, lambda made: review_of(folder, made))


def run(
    folder: ClassFolder, rules: Path | None = None, course_folder: Path | None = None, *, with_names: bool = True
) -> int:
    """Start the app and return the exit status. Raises `TutorError` if it cannot start."""
    options = Options.read(folder)
    rules_for(folder, rules)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        advice = f"Without one, `gpututor classroom report {folder.folder}` prints a table."
        raise UsageError("The screen needs a terminal, and this is not one.", advice)
    client = GradingClient("process" if options.isolation == "process" else "bubblewrap")
    try:
        grading = RegradeClient(folder, client, course_folder)
        source = source_of(folder, rules, course_folder, with_names=with_names)
        ClassroomApp(source, grading, collector=GcScheduler()).run()
    finally:
        client.close()
    return 0
