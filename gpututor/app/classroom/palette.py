"""The palette of the instructor's app: commands, exercises, students."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from gpututor.app.classroom.class_screen import PAGES, ClassScreen
from gpututor.app.classroom.rows import students_of
from gpututor.app.classroom.submission import SubmissionScreen
from gpututor.app.palette import Entry, Everything
from gpututor.settings import prepare_to_write

MOST_STUDENTS = 20
"""How many of those who match are offered: more would be slow to list, and a few letters more find the one."""


class OfTheClass(Everything):
    """Offers what the screen can do, and the students who are meant by what is typed."""

    def entries_for(self, query: str) -> Iterator[Entry]:
        yield from self.entries()
        if isinstance(self.screen, ClassScreen) and self.screen.table is not None:
            found = students_of(self.screen.table, query)
            for row in itertools.islice(found, MOST_STUDENTS):
                yield Entry(row.name, "Go to this student.", partial(self.screen.go_to, row.marks.student.id))

    def entries(self) -> Iterator[Entry]:
        prepare_to_write()  # for another theme
        screen = self.screen
        if isinstance(screen, ClassScreen):
            yield from _of_class(screen)
        elif isinstance(screen, SubmissionScreen):
            yield from _of_submission(screen)
        yield Entry("Theme", "Choose other colours.", self.app.action_change_theme, ("colours",))
        yield Entry("Quit", "Leave.", self.app.action_quit)


def _of_class(screen: ClassScreen) -> Iterator[Entry]:
    for number, page in enumerate(PAGES):
        yield Entry(page, f"Go to the page {page}.", partial(screen.action_page, number))
    yield Entry("Filter", "Show only what matches some words.", screen.action_filter, ("search", "find"))
    yield Entry("Order", "Order the students by id, by name, by points.", screen.action_order, ("sort",))
    yield Entry("Read again", "Read the class again, as it is by now.", screen.action_read_again, ("reload",))
    yield Entry("Help", "What is shown, and the keys.", screen.action_help)
    for words, title in screen.exercise_titles:
        yield Entry(title, "Show the students of this exercise.", partial(screen.filter_by, words))


def _of_submission(screen: SubmissionScreen) -> Iterator[Entry]:
    yield Entry("Device", "See what the devices did.", screen.action_device, ("trace", "timeline"))
    yield Entry("Grade again", "Grade this submission again.", screen.action_again, ("regrade",))
    yield Entry("All text", "Read everything in full.", screen.action_all_text)
    yield Entry("Next student", "The next one that is shown.", partial(screen.action_step, 1))
    yield Entry("Previous student", "The one before.", partial(screen.action_step, -1))
    yield Entry("Help", "What is shown, and the keys.", screen.action_help)
    yield Entry("Back", "Back to the class.", screen.action_back)
