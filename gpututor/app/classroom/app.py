"""The classroom app: one class, read and regraded in the terminal."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.screen import Screen

from gpututor.app import runtime
from gpututor.app.base import BaseApp
from gpututor.app.classroom.class_screen import PAGES, ClassScreen
from gpututor.app.classroom.class_table import Source, students_of
from gpututor.app.classroom.regrade_client import RegradeClient
from gpututor.app.classroom.submission_screen import SubmissionScreen
from gpututor.app.commands import SCREENS
from gpututor.app.runtime import GcScheduler, write_log
from gpututor.app.screens.palette import Entry
from gpututor.app.textual_private import error_of
from gpututor.paths import log_file
from gpututor.settings import SettingsFile

if TYPE_CHECKING:
    from gpututor.app.screens.palette import Entry


class ClassroomApp(BaseApp):
    """Shows a class that was graded. Everything that it works on is handed in."""

    TITLE = "gpututor classroom"
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        runtime.path_of(name) for name in (*runtime.FIRST, *runtime.LATER, runtime.CLASSROOM)
    ]

    def __init__(
        self,
        source: Source,
        grading: RegradeClient,
        *,
        settings: SettingsFile | None = None,
        collector: GcScheduler | None = None,
    ) -> None:
        super().__init__(client=grading.client, settings=settings, collector=collector)
        self._source = source
        self._grading = grading

    def palette_entries(self, screen: Screen[Any], query: str) -> Iterator[Entry]:
        # with the first use of the palette

        return class_entries(screen, query)

    def get_default_screen(self) -> Screen[Any]:
        return ClassScreen(self._source, self._grading)

    def _fatal_error(self) -> None:
        """A fault of ours that nobody foresaw: the log has what Textual would print."""
        error = sys.exc_info()[1] or error_of(self)
        if error is not None:
            write_log(error)
        self.bell()
        words = (
            f"gpututor stopped in an unexpected way: {error!r}\nNothing of the class is lost. The log is {log_file()}"
        )
        self.panic(Text(words))


MOST_STUDENTS = 20
"""The most matching students to offer: more would be slow to list, and a few letters more narrow them down."""


def class_entries(screen: Screen[Any], query: str) -> Iterator[Entry]:
    """Entries of the instructor's app while `screen` is shown, with the students that `query` matches."""
    if isinstance(screen, ClassScreen):
        yield from _of_class(screen)
    elif isinstance(screen, SubmissionScreen):
        yield from _of_table(screen, "submission")
    yield Entry("Theme", "Choose other colours.", screen.app.action_change_theme, ("colours",))
    yield Entry("Quit", "Leave.", screen.app.action_quit)
    if query and isinstance(screen, ClassScreen) and screen.table is not None:
        for row in itertools.islice(students_of(screen.table, query), MOST_STUDENTS):
            yield Entry(row.name, "Go to this student.", partial(screen.go_to, row.marks.student.id))


def _of_class(screen: ClassScreen) -> Iterator[Entry]:
    for number, page in enumerate(PAGES):
        yield Entry(page, f"Go to the page {page}.", partial(screen.action_page, number))
    yield from _of_table(screen, "class")
    for words, title in screen.exercise_titles:
        yield Entry(title, "Show the students of this exercise.", partial(screen.filter_by, words))


def _of_table(screen: Screen[Any], name: str) -> Iterator[Entry]:
    """List the commands of a screen that are for the palette."""
    for command in SCREENS[name]:
        if command.palette is not None:
            act = partial(screen.run_action, command.bound[0][1])
            yield Entry(command.title, command.help, act, command.palette)
