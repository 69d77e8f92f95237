"""Navigation: exercises and lessons, panes, links, search, jump letters, and back again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import Offset
from textual.widget import Widget

from gpututor.app.commands import Pane
from gpututor.app.course_index import NAME, Destination, destination, is_web, line_of, sections, with_links
from gpututor.app.main.attempts import AttemptController
from gpututor.app.main.files import FileController
from gpututor.app.main.host import Host
from gpututor.app.main.learning import LearningController
from gpututor.app.main.panes import READING
from gpututor.app.main.runs import RunController
from gpututor.app.widgets.results import CheckRow
from gpututor.app.wording import initial_cursor
from gpututor.course.model import Exercise, Lesson
from gpututor.errors import CourseError
from gpututor.processes import has_graphical_browser
from gpututor.progress.attempt_writer import EventKind, ProgressEvent
from gpututor.progress.overview import State, state_of

if TYPE_CHECKING:
    from gpututor.app.course_index import Passage, TextIndex
    from gpututor.app.screens.jump import JumpTarget
    from gpututor.app.screens.palette import PaletteEntry


class ReadingPlace(NamedTuple):
    """The place of a learner within an exercise."""

    pane: Pane = Pane.TASK
    cursor: tuple[int, int] | None = None
    """The editor's row and column, from 0; None for the first line to write."""


class _Visit(NamedTuple):
    """A place that was left by a link or a search."""

    exercise: Exercise
    lesson: Lesson | None
    pane: Pane


class Navigator:
    """Opens exercises, lessons and panes, and remembers the way back."""

    def __init__(
        self,
        host: Host,
        files: FileController,
        attempts: AttemptController,
        runs: RunController,
        learning: LearningController,
    ) -> None:
        self._host, self._files, self._attempts, self._runs, self._learning = host, files, attempts, runs, learning
        self._lesson: Lesson | None = None
        """A lesson that is read without its exercise being open."""
        self._cursors: dict[str, tuple[int, int]] = {}
        """The cursor's place in each exercise's file, in this session."""
        self._noted_place = ""
        self._visits: list[_Visit] = []
        self._index: TextIndex | None = None
        self._last_query = ""

    @property
    def can_go_back(self) -> bool:
        """True if a link or a search left a place."""
        return bool(self._visits)

    @property
    def lesson(self) -> Lesson:
        return self._lesson or self._host.learner.course.lesson_of(self._host.exercise)

    # Opening

    def open_exercise(self, exercise: Exercise, pane: Pane) -> bool:
        """Save and leave the open exercise, and open another; return False if the learner must answer first."""
        if self._files.is_open:
            if not self._files.save_or_ask(partial(self.open_exercise, exercise, pane), leaving=True):
                return False
            self._cursors[self._host.exercise.key] = self._host.panes.editor.cursor_location
        self._host.exercise = exercise
        self._lesson = None
        self._host.status.show_message("")
        self._files.load()
        editor = self._host.panes.editor
        editor.bring_to(self._cursors.get(exercise.key) or initial_cursor(editor.document.lines))
        self._attempts.record(ProgressEvent(EventKind.CURRENT_EXERCISE, exercise.key))
        if not self._runs.show_run():
            self._attempts.show_last_report()
        self._host.show_lists()
        if pane not in READING:
            self._show_text(Pane.TASK)  # which is next to it on a wide screen
        self.show_pane(pane)
        self._host.show_file_state()
        if self._host.learner.workspace.newer_starter(exercise):
            key = self._host.letter_of("reset")
            self._host.status.show_message(f"There is a newer starter. {key} loads it and backs up your file.")
        return True

    def read_lesson(self, lesson: Lesson) -> None:
        """Show a lesson; the exercise that is open stays open."""
        self._lesson = lesson
        self.show_pane(Pane.LESSON)

    def open_chosen(self, key: str, with_lesson: bool) -> None:
        exercise = next(exercise for exercise in self._host.learner.course.exercises if exercise.key == key)
        new_lesson = with_lesson and exercise.lesson_slug != self._host.exercise.lesson_slug
        self.open_exercise(exercise, Pane.LESSON if new_lesson else Pane.TASK)

    def read_chosen(self, slug: str) -> None:
        self.read_lesson(next(lesson for lesson in self._host.learner.course.lessons if lesson.slug == slug))

    def next_exercise(self) -> None:
        """Open the next exercise; after a lesson, the first exercise of the lesson."""
        if self._host.panes.current is Pane.LESSON and self._is_to_do:
            self.show_pane(Pane.TASK)  # the open exercise belongs to this lesson, so it comes next
            return
        following = self._host.learner.course.after(self._host.exercise)
        if following is None:
            self._host.status.show_reply("This is the last exercise of the course.")
            return
        self.open_chosen(following.key, with_lesson=True)

    @property
    def _is_to_do(self) -> bool:
        """True if the open exercise belongs to the lesson that is shown, and was not begun yet."""
        state = state_of(self._host.exercise.key, self._attempts.lessons)
        return state is State.TO_DO and self.lesson.slug == self._host.exercise.lesson_slug

    def previous_exercise(self) -> None:
        exercises = self._host.learner.course.exercises
        position = [exercise.key for exercise in exercises].index(self._host.exercise.key)
        if position == 0:
            self._host.status.show_reply("This is the first exercise of the course.")
            return
        self.open_exercise(exercises[position - 1], Pane.TASK)

    # The place at the last end of the app

    def place_left(self) -> ReadingPlace:
        """Return the learner's place at the last end of the app; the task's top if it is unknown.

        A learner who left in the editor returns to the task, because the first keys after the start are commands.
        """
        stored = self._attempts.from_progress(self._host.learner.progress.place, None)
        try:
            exercise, pane, row, column = json.loads(stored or "")
            place = ReadingPlace(Pane.TASK if pane == Pane.CODE else Pane(pane), (int(row), int(column)))
        except (ValueError, TypeError):
            return ReadingPlace()
        return place if exercise == self._host.exercise.key else ReadingPlace()

    def return_to(self, place: ReadingPlace) -> None:
        if place.cursor is not None:
            self._cursors[self._host.exercise.key] = place.cursor
        self.open_exercise(self._host.exercise, place.pane)

    def keep_place(self) -> None:
        """Save the learner's place if it has changed."""
        if not self._files.is_open:
            return  # nothing is open yet, or it cannot be read
        row, column = self._host.panes.editor.cursor_location
        place = json.dumps([self._host.exercise.key, self._host.panes.current, row, column])
        if place != self._noted_place:
            self._noted_place = place
            self._attempts.record(ProgressEvent(EventKind.PLACE, place))

    # Panes

    def show_pane(self, pane: Pane) -> None:
        """Bring a pane to the front, with the text that belongs there."""
        if pane in READING:
            self._show_text(pane)
        elif pane is not Pane.COURSE and self._host.panes.reading is Pane.LESSON:
            self._show_text(Pane.TASK)
        self._host.panes.show(pane)
        self._host.show_bars()

    def _show_text(self, pane: Pane) -> None:
        course, exercise = self._host.learner.course, self._host.exercise
        name = self.lesson.slug if pane is Pane.LESSON else exercise.key
        try:
            match pane:
                case Pane.LESSON:
                    text = with_links(course, self.lesson.text, self.lesson)
                case Pane.HINTS:
                    text = self._learning.hints_text()
                case _:
                    text = with_links(course, exercise.task, exercise)
        except CourseError as error:
            self._host.show_error(error)
            text = ""
        self._host.panes.read(pane, text, f"{pane} {name}")

    def pane_clicked(self, widget: Widget) -> None:
        """Bring the pane of a widget to the front; the widget takes the focus, if it can."""
        # Not by following the focus: it also moves when the focused widget is removed.
        panes = self._host.panes
        pane = panes.pane_of(widget)
        if pane is not None and pane is not panes.current:
            panes.show(pane, focus=False)
            self._host.show_bars()

    def show_course(self) -> None:
        self.show_pane(Pane.COURSE)

    def show_lesson(self) -> None:
        self._lesson = None
        self.show_pane(Pane.LESSON)

    def show_task(self) -> None:
        self.show_pane(Pane.TASK)

    async def show_code(self) -> None:
        """Show the code, and wait until it has the focus: keys that follow are for it."""
        self.show_pane(Pane.CODE)
        await self._host.panes.focus_settled()

    def show_results(self) -> None:
        self.show_pane(Pane.RESULTS)

    def next_pane(self) -> None:
        self.show_pane(self._host.panes.next_of(1))

    def previous_pane(self) -> None:
        self.show_pane(self._host.panes.next_of(-1))

    # Links

    def follow(self, target: str) -> None:
        if is_web(target):
            self._open_page(target)
            return
        path, _, anchor = target.partition("#")
        if PurePath(path).name == "glossary.md":
            self._host.show_glossary(anchor)
            return
        if target.startswith(NAME):
            self._host.show_documentation_of(target.removeprefix(NAME))
            return
        here = self.lesson if self._host.panes.reading is Pane.LESSON else self._host.exercise
        where = destination(self._host.learner.course, target, here)
        if where is None:
            self._host.status.show_reply(f"This link leads nowhere: {target}")
            return
        self.go_to(where)

    def _open_page(self, address: str) -> None:
        app = self._host.panes.app
        if app.is_web or has_graphical_browser():
            app.open_url(address)
            self._host.status.show_message(f"Opened in the browser: {address}")
        else:
            app.copy_to_clipboard(address)
            self._host.status.show_message(f"There is no browser here. Copied: {address}")

    def go_to(self, where: Destination, line: int | None = None) -> None:
        """Open a lesson or a task, at a heading or a line of its text; Backspace comes back."""
        self._visits.append(_Visit(self._host.exercise, self._lesson, self._host.panes.current))
        if not self._open(where):
            self._visits.pop()
            return
        if where.anchor:
            line = line_of(self._host.panes.reader.text, where.anchor)
            if line is None:
                self._host.status.show_reply(f"There is no heading “{where.anchor}” here.")
        if line is None:
            self._host.panes.reader.go_to_top()
        else:
            self._host.panes.reader.go_to_line(line)

    def _open(self, where: Destination) -> bool:
        if isinstance(where.page, Lesson):
            self.read_lesson(where.page)
        elif where.page.key == self._host.exercise.key:
            self.show_pane(Pane.TASK)
        else:
            return self.open_exercise(where.page, Pane.TASK)
        return True

    def go_back(self) -> None:
        if not self._visits:
            self._host.status.show_reply("There is nothing to go back to.")
            return
        visit = self._visits[-1]
        if visit.exercise.key != self._host.exercise.key and not self.open_exercise(visit.exercise, visit.pane):
            return
        self._visits.pop()
        self._lesson = visit.lesson
        self.show_pane(visit.pane)

    # Contents

    def show_contents(self) -> None:
        """List the sections of the lesson, to go to one."""
        from gpututor.app.screens.palette import open_contents

        entries = list(self._section_entries(self.lesson))
        if entries:
            open_contents(self._host.panes.app, entries)
        else:
            self._host.status.show_reply("This lesson has no sections.")

    @cached_property
    def all_sections(self) -> list[PaletteEntry]:
        """Entries of the palette for the sections of all lessons."""
        return [
            replace(entry, title=f"Lesson {lesson.number}: {entry.title}")
            for lesson in self._host.learner.course.lessons
            for entry in self._section_entries(lesson)
        ]

    def _section_entries(self, lesson: Lesson) -> Iterator[PaletteEntry]:
        from gpututor.app.screens.palette import PaletteEntry

        for line, words in sections(lesson):
            yield PaletteEntry(words, "", partial(self.go_to, Destination(lesson), line))

    # Search

    def search(self) -> None:
        from gpututor.app.screens.search import SearchScreen  # 10 ms: an input that the main screen does without

        self._host.push(SearchScreen(self._text_index, self._last_query), self._open_passage)

    def _text_index(self) -> TextIndex:
        if self._index is None:
            from gpututor.app.course_index import TextIndex

            self._index = TextIndex(self._host.learner.course)
        return self._index

    def _open_passage(self, answer: tuple[Passage | None, str] | None) -> None:
        if answer is None:
            return
        passage, self._last_query = answer
        if passage is None:
            return
        try:
            self.go_to(Destination(passage.page), passage.line)
        except CourseError as error:
            self._host.show_error(error)

    # Jump letters

    def jump(self) -> None:
        from gpututor.app.screens.jump import JumpScreen

        def continue_with(go: Callable[[], object] | None) -> None:
            if go is not None:
                self._host.call_later(go)

        self._host.push(JumpScreen(self._targets(), self._host.panes.screen), continue_with)

    def _targets(self) -> Iterator[JumpTarget]:
        """Yield all visible places that the learner can jump to, the most used first."""
        from gpututor.app.screens.jump import JumpTarget

        panes = self._host.panes
        for widget in (panes.course, panes.reader, panes.editor, panes.results):
            pane = panes.pane_of(widget)
            if pane is not None and pane is not panes.current and widget.is_attached and self._is_seen(widget):
                yield JumpTarget(widget.region.offset + Offset(1, 0), partial(self.show_pane, pane))
        for link, offset in panes.reader.visible_links:
            yield JumpTarget(_before(offset, panes.reader), partial(self.follow, link.target))
        for row in panes.results.rows:
            if self._is_seen(row) and panes.results.body.scrollable_content_region.contains_point(row.region.offset):
                yield JumpTarget(_before(row.region.offset, panes.results), partial(self._show_check, row))
        for pane, offset in zip(Pane, self._host.tabs.places(), strict=True):
            yield JumpTarget(offset, partial(self.show_pane, pane))
        if self._is_seen(panes.course):
            for index, offset in panes.course.list.visible_rows():
                yield JumpTarget(_before(offset, panes.course), partial(panes.course.list.pick, index))

    @staticmethod
    def _is_seen(widget: Widget) -> bool:
        return widget.is_on_screen and widget.region.area > 0

    def _show_check(self, row: CheckRow) -> None:
        if row.is_attached:
            self._host.panes.results.look_at(row)
            self.show_pane(Pane.RESULTS)


def _before(offset: Offset, pane: Widget) -> Offset:
    """Return the column before, which is mostly blank, within the pane."""
    return Offset(max(pane.region.x, offset.x - 1), offset.y)
