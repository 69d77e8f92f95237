"""The part of the main screen that opens exercises and lessons, shows the panes, and knows where the learner is."""

from __future__ import annotations

import json
from functools import partial
from typing import NamedTuple

from textual import events, on

from gpututor.app.commands import Pane
from gpututor.app.first_place import first_place
from gpututor.app.grader import Client
from gpututor.app.links import with_links
from gpututor.app.main.around import AroundScreen
from gpututor.app.main.saving import Learner
from gpututor.app.messages import ExerciseChosen, LessonChosen, PaneChosen
from gpututor.app.standing import State
from gpututor.app.widgets.panes import READING
from gpututor.course.exercise import Exercise, Lesson
from gpututor.errors import CourseError
from gpututor.progress.notes import Kind, Note


class Place(NamedTuple):
    """Where a learner left off within an exercise."""

    pane: Pane = Pane.TASK
    cursor: tuple[int, int] | None = None
    """The editor's row and column, from 0; none: where there is something to write."""


class OpenScreen(AroundScreen):
    """A desk that knows the whole course."""

    def __init__(self, learner: Learner, exercise: Exercise, client: Client) -> None:
        super().__init__(learner, exercise, client)
        self._lesson: Lesson | None = None
        """A lesson that is read without its exercise being open."""
        self._cursors: dict[str, tuple[int, int]] = {}
        """Where the cursor stood in each exercise's file, in this session."""
        self._cursor_is_new = False
        """Whether the editor was not looked at since the exercise was opened, and so not scrolled to its cursor."""
        self._kept_place = ""

    @property
    def lesson(self) -> Lesson:
        """The lesson that the lesson pane shows."""
        return self._lesson or self.learner.course.lesson_of(self.exercise)

    # Opening

    def open_exercise(self, exercise: Exercise, pane: Pane) -> bool:
        """Leave the exercise that is open, its edits saved, and open another; False when the learner must answer."""
        if self.is_mounted and self._desk is not None:
            if not self.save_or_ask(partial(self.open_exercise, exercise, pane), leaving=True):
                return False
            self._cursors[self.exercise.key] = self.panes.editor.cursor_location
        self.exercise = exercise
        self._lesson = None
        self.status.show_news("")
        self.load_file()
        self.panes.editor.move_cursor(self._cursors.get(exercise.key) or first_place(self.panes.editor.document.lines))
        self._cursor_is_new = True
        self.note(Note(Kind.CURRENT_EXERCISE, exercise.key))
        self.show_last_report()
        self.show_lists()
        if pane not in READING:
            self._show_text(Pane.TASK)  # which stands beside it where there is room
        self.show_pane(pane)
        self.show_standing()
        if self.learner.workspace.newer_starter(exercise):
            self.status.show_news("A newer starter has come. x takes it and keeps your file in .backups.")
        return True

    def read_lesson(self, lesson: Lesson) -> None:
        """Show a lesson; the exercise that is open stays open."""
        self._lesson = lesson
        self.show_pane(Pane.LESSON)

    @on(ExerciseChosen)
    def _open_chosen(self, message: ExerciseChosen) -> None:
        exercise = self.exercise_of(message.key)
        new_lesson = message.with_lesson and exercise.lesson_slug != self.exercise.lesson_slug
        self.open_exercise(exercise, Pane.LESSON if new_lesson else Pane.TASK)

    @on(LessonChosen)
    def _read_chosen(self, message: LessonChosen) -> None:
        self.read_lesson(self.lesson_called(message.slug))

    def exercise_of(self, key: str) -> Exercise:
        return next(exercise for exercise in self.learner.course.exercises if exercise.key == key)

    def lesson_called(self, slug: str) -> Lesson:
        return next(lesson for lesson in self.learner.course.lessons if lesson.slug == slug)

    def action_next_exercise(self) -> None:
        if self.panes.current is Pane.LESSON and self._is_to_do:
            self.show_pane(Pane.TASK)  # what comes after a lesson is its exercise, not the one behind it
            return
        following = self.learner.course.after(self.exercise)
        if following is None:
            self.status.show_answer("This is the last exercise of the course.")
            return
        new_lesson = following.lesson_slug != self.exercise.lesson_slug
        self.open_exercise(following, Pane.LESSON if new_lesson else Pane.TASK)

    @property
    def _is_to_do(self) -> bool:
        """Whether the exercise that is open belongs to the lesson that is shown, and was not begun yet."""
        rows = (row for lesson in self.lessons for row in lesson.exercises)
        state = next(row.state for row in rows if row.key == self.exercise.key)
        return state is State.TO_DO and self.lesson.slug == self.exercise.lesson_slug

    def action_previous_exercise(self) -> None:
        exercises = self.learner.course.exercises
        position = [exercise.key for exercise in exercises].index(self.exercise.key)
        if position == 0:
            self.status.show_answer("This is the first exercise of the course.")
            return
        self.open_exercise(exercises[position - 1], Pane.TASK)

    # Where the learner left off

    def place_left(self) -> Place:
        """Where the learner was when the program ended; the task's top when nothing is known of it."""
        kept = self.from_progress(self.learner.progress.place, None)
        try:
            exercise, pane, row, column = json.loads(kept or "")
            place = Place(Pane(pane), (int(row), int(column)))
        except (ValueError, TypeError):
            return Place()
        return place if exercise == self.exercise.key else Place()

    def return_to(self, place: Place) -> None:
        """Open the exercise at a place."""
        if place.cursor is not None:
            self._cursors[self.exercise.key] = place.cursor
        self.open_exercise(self.exercise, place.pane)

    def keep_place(self) -> None:
        """Note where the learner is, when it is another place than before."""
        if self._desk is None:
            return  # nothing is open yet, or it cannot be read
        row, column = self.panes.editor.cursor_location
        place = json.dumps([self.exercise.key, self.panes.current, row, column])
        if place != self._kept_place:
            self._kept_place = place
            self.note(Note(Kind.PLACE, place))

    # Panes

    def show_pane(self, pane: Pane) -> None:
        if pane in READING:
            self._show_text(pane)
        elif pane is not Pane.COURSE and self.panes.reading is Pane.LESSON:
            self._show_text(Pane.TASK)
        self.panes.show(pane)
        if pane is Pane.CODE and self._cursor_is_new:
            self._cursor_is_new = False
            # Only a displayed editor knows its size, and so how far to scroll.
            self.call_after_refresh(self.panes.editor.scroll_to_cursor)
        self._show_around()

    def _show_text(self, pane: Pane) -> None:
        name = self.lesson.slug if pane is Pane.LESSON else self.exercise.key
        self.panes.read(pane, self._text_for(pane), f"{pane} {name}")

    def _text_for(self, pane: Pane) -> str:
        course = self.learner.course
        try:
            match pane:
                case Pane.LESSON:
                    return with_links(course, self.lesson.text, lesson=self.lesson)
                case Pane.HINTS:
                    return self.hints_text()
                case _:
                    return with_links(course, self.exercise.task, exercise=self.exercise)
        except CourseError as error:
            self.show_error(error)
            return ""

    def _show_around(self) -> None:
        self.tabs.show(self.panes.current, f"{self.exercise.label} {self.exercise.title}")
        self.show_keys()

    def show_standing(self) -> None:
        self.status.show_standing(self.file_words, self.planned_device)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        # Not by following the focus: it also wanders by itself, when the widget that has it is removed.
        pane = self.panes.pane_of(self.get_widget_at(event.screen_x, event.screen_y)[0])
        if pane is not None and pane is not self.panes.current:
            self.panes.show(pane, focus=False)
            self._show_around()

    @on(PaneChosen)
    def _show_chosen_pane(self, message: PaneChosen) -> None:
        self.show_pane(message.pane)

    def action_show_course(self) -> None:
        self.show_pane(Pane.COURSE)

    def action_show_lesson(self) -> None:
        self._lesson = None
        self.show_pane(Pane.LESSON)

    def action_show_task(self) -> None:
        self.show_pane(Pane.TASK)

    async def action_show_code(self) -> None:
        self.show_pane(Pane.CODE)
        await self.panes.focus_settled()

    def action_show_results(self) -> None:
        self.show_pane(Pane.RESULTS)

    def action_next_pane(self) -> None:
        self.show_pane(self.panes.next_of(1))

    def action_previous_pane(self) -> None:
        self.show_pane(self.panes.next_of(-1))
