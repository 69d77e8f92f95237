"""The palette of the instructor's app: commands, exercises, students."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpututor.app.classroom.class_screen import PAGES, ClassScreen
from gpututor.app.classroom.submission import SubmissionScreen
from gpututor.app.palette import Entry, Everything
from gpututor.settings import prepare_to_write


class OfTheClass(Everything):
    """Offers what the screen can do."""

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
    for row in screen.table.rows if screen.table is not None else ():
        student = row.marks.student.id
        yield Entry(row.name, "Show this student.", partial(screen.go_to, student))


def _of_submission(screen: SubmissionScreen) -> Iterator[Entry]:
    yield Entry("Device", "See what the devices did.", screen.action_device, ("trace", "timeline"))
    yield Entry("Grade again", "Grade this submission again.", screen.action_again, ("regrade",))
    yield Entry("All text", "Read everything in full.", screen.action_all_text)
    yield Entry("Next student", "The next one that is shown.", partial(screen.action_step, 1))
    yield Entry("Previous student", "The one before.", partial(screen.action_step, -1))
    yield Entry("Help", "What is shown, and the keys.", screen.action_help)
    yield Entry("Back", "Back to the class.", screen.action_back)
