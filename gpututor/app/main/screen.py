"""The main screen: moving about, and the commands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType

from gpututor.app.commands import Pane, bindings
from gpututor.app.grader import Client
from gpututor.app.main.learning import LearnScreen
from gpututor.app.main.saving import LOOK_EVERY_S, Learner
from gpututor.app.messages import (
    CommandChosen,
    DevicesFound,
    ExerciseChosen,
    LessonChosen,
    LineChosen,
    LinkFollowed,
    PaneChosen,
    TabsReplaced,
)
from gpututor.app.widgets.panes import READING
from gpututor.app.widgets.verdict_row import VerdictRow
from gpututor.course.exercise import Exercise, Lesson
from gpututor.errors import CourseError
from gpututor.grading.words import count

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory


class MainScreen(LearnScreen):
    """Where a learner spends the time."""

    BINDINGS: ClassVar[list[BindingType]] = list(bindings())

    def __init__(
        self,
        learner: Learner,
        exercise: Exercise,
        client: Client,
        *,
        find_devices: Callable[[], Inventory] | None = None,
    ) -> None:
        super().__init__(learner, exercise, client)
        self._devices = find_devices
        self._lesson: Lesson | None = None
        """A lesson that is read without its exercise being open."""
        self.is_ready = False
        """Whether all that comes after the first paint is there."""

    def on_mount(self) -> None:
        # The task is on screen at once; the file, the list and the results, 30 ms of work, come right after it.
        self.show_pane(Pane.TASK)
        self.call_after_refresh(self._after_first_paint)

    async def _after_first_paint(self) -> None:
        self.grader.warm()
        await self.panes.add_editor()
        self.open_exercise(self.exercise, Pane.TASK)
        self.panes.editor.turn_colours_on()
        await self.panes.reader.start()
        self.is_ready = True
        self.set_interval(LOOK_EVERY_S, self.tick)
        threading.Thread(target=self._find_devices, daemon=True).start()
        broken = len(self.learner.course.problems)
        if broken:
            self.status.show_news(f"{count(broken, 'fault')} in the course's files: `gpututor doctor` names them.")
        elif self.learner.progress.notice:
            self.status.show_news(self.learner.progress.notice)

    def _find_devices(self) -> None:
        if self._devices is not None:
            self.post_message(DevicesFound(self._devices()))

    # Opening

    def open_exercise(self, exercise: Exercise, pane: Pane) -> None:
        """Leave the exercise that is open, its edits saved, and open another."""
        if self.is_mounted and self._desk is not None and not self.save_or_ask():
            return
        self.exercise = exercise
        self._lesson = None
        self.status.show_news("")
        self.load_file()
        self.from_progress(partial(self.learner.progress.set_current_exercise, exercise.key), None)
        self.show_last_report()
        self.show_lists()
        self.show_pane(pane)
        self.show_standing()
        if self.learner.workspace.newer_starter(exercise):
            self.status.show_news("A newer starter has come. x takes it and keeps your file in .backups.")

    @on(ExerciseChosen)
    def _open_chosen(self, message: ExerciseChosen) -> None:
        self.open_exercise(self._exercise(message.key), Pane.TASK)

    @on(LessonChosen)
    def _read_chosen(self, message: LessonChosen) -> None:
        self._lesson = next(lesson for lesson in self.learner.course.lessons if lesson.slug == message.slug)
        self.show_pane(Pane.LESSON)

    @on(LinkFollowed)
    def _follow(self, message: LinkFollowed) -> None:
        if message.target.startswith(("https://", "http://")):
            self.app.open_url(message.target)
            return
        for lesson in self.learner.course.lessons:
            if lesson.folder.name in message.target or lesson.slug == message.target:
                self._lesson = lesson
                self.show_pane(Pane.LESSON)
                return
        self.status.show_news(f"Nothing here is called {message.target}")

    def _exercise(self, key: str) -> Exercise:
        return next(exercise for exercise in self.learner.course.exercises if exercise.key == key)

    # Panes

    def show_pane(self, pane: Pane) -> None:
        if pane in READING:
            self.panes.read(pane, self._text_for(pane))
        elif pane is not Pane.COURSE and self.panes.reading is Pane.LESSON:
            self.panes.read(Pane.TASK, self._text_for(Pane.TASK))
        self.panes.show(pane)
        self._show_around()

    def _text_for(self, pane: Pane) -> str:
        try:
            match pane:
                case Pane.LESSON:
                    return (self._lesson or self.learner.course.lesson_of(self.exercise)).text
                case Pane.HINTS:
                    return self.hints_text()
                case _:
                    return self.exercise.task
        except CourseError as error:
            self.show_error(error)
            return ""

    def _show_around(self) -> None:
        self.tabs.show(self.panes.current, f"{self.exercise.label} {self.exercise.title}")
        self.show_keys()

    def show_standing(self) -> None:
        saved = "saved" if self.is_saved else "not saved yet"
        self.status.show_standing(f"{saved} · {self.planned_device}")

    def on_mouse_down(self, event: events.MouseDown) -> None:
        # Not by following the focus: it also wanders by itself, when the widget that has it is removed.
        pane = self.panes.pane_of(self.get_widget_at(event.screen_x, event.screen_y)[0])
        if pane is not None and pane is not self.panes.current:
            self.panes.show(pane, focus=False)
            self._show_around()

    @on(PaneChosen)
    def _show_chosen_pane(self, message: PaneChosen) -> None:
        self.show_pane(message.pane)

    @on(CommandChosen)
    async def _do_chosen_command(self, message: CommandChosen) -> None:
        await self.action_after_text(message.id)

    async def action_after_text(self, command: str) -> None:
        """Do a command once the text that was typed before it stands in the editor: such keys overtake letters."""
        await self.caught_up()
        await self.run_action(command)

    async def caught_up(self) -> None:
        """Wait until the editor has all the text that was typed so far."""
        if self.focused is self.panes.editor:
            await self.panes.editor.caught_up()

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        self._show_line(message.line)

    def _show_line(self, line: int) -> None:
        self.show_pane(Pane.CODE)
        # Only a displayed editor knows its size, and so how far to scroll.
        self.call_after_refresh(self.panes.editor.go_to_line, line, marked=True)

    def action_show_course(self) -> None:
        self.show_pane(Pane.COURSE)

    def action_show_lesson(self) -> None:
        self._lesson = None
        self.show_pane(Pane.LESSON)

    def action_show_task(self) -> None:
        self.show_pane(Pane.TASK)

    def action_show_code(self) -> None:
        self.show_pane(Pane.CODE)

    def action_show_results(self) -> None:
        self.show_pane(Pane.RESULTS)

    def action_next_pane(self) -> None:
        self.show_pane(self.panes.next_of(1))

    def action_previous_pane(self) -> None:
        self.show_pane(self.panes.next_of(-1))

    # Commands

    def action_next_exercise(self) -> None:
        following = self.learner.course.after(self.exercise)
        if following is None:
            self.status.show_news("This is the last exercise of the course.")
            return
        new_lesson = following.lesson_slug != self.exercise.lesson_slug
        self.open_exercise(following, Pane.LESSON if new_lesson else Pane.TASK)

    def action_previous_exercise(self) -> None:
        exercises = self.learner.course.exercises
        position = [exercise.key for exercise in exercises].index(self.exercise.key)
        if position == 0:
            self.status.show_news("This is the first exercise of the course.")
            return
        self.open_exercise(exercises[position - 1], Pane.TASK)

    def action_run_checks(self) -> None:
        self.start_run()

    def action_cancel(self) -> None:
        if self.running:
            self.stop_run()
        else:
            self.show_pane(Pane.TASK)

    def action_go_to_failure(self) -> None:
        row = self.panes.results.first_failure
        if row is None or row.verdict.line is None:
            self.status.show_news("No failed check points at a line.")
            return
        self._show_line(row.verdict.line)

    def action_open_check(self) -> None:
        if isinstance(self.focused, VerdictRow):
            self.focused.action_open_or_close()

    def action_help(self) -> None:
        from gpututor.app.screens.help import HelpScreen

        self.app.push_screen(HelpScreen())

    @on(TabsReplaced)
    def _tell_of_tabs(self) -> None:
        self.status.show_news("Each tab at the start of a line became four spaces.")

    def action_toggle_comment(self) -> None:
        self.panes.editor.action_toggle_comment()

    def action_quit(self) -> None:
        """Leave, with everything saved and the run stopped."""
        if self._desk is not None and not self.save_or_ask():
            return
        if self.running:
            self.grader.cancel()
        self.app.exit()
