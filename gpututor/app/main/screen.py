"""The main screen: composes widgets and controllers, and forwards messages and commands to them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from functools import cached_property, partial
from inspect import isawaitable
from operator import attrgetter
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.screen import Screen, ScreenResultCallbackType

from gpututor.app import runtime
from gpututor.app.commands import COMMANDS, FOOTERS, Pane, bar, bindings, footer, key_name
from gpututor.app.course_index import glossary_words, slug
from gpututor.app.keys import with_keys
from gpututor.app.main.attempts import AttemptController
from gpututor.app.main.copying import CopyController
from gpututor.app.main.editing import EditorController
from gpututor.app.main.files import CHECK_EVERY_S, FileController, file_error
from gpututor.app.main.host import LearnerContext, Result
from gpututor.app.main.learning import LearningController
from gpututor.app.main.navigation import Navigator, ReadingPlace
from gpututor.app.main.panes import Panes, layout_classes
from gpututor.app.main.runs import RunController
from gpututor.app.messages import (
    EditorLeft,
    EditorReplied,
    ExerciseChosen,
    FindRequested,
    GradingProgressed,
    LessonChosen,
    LineChosen,
    LinkFollowed,
    ModeChanged,
    ReadyForKeys,
    SettingsChanged,
)
from gpututor.app.screens.base import BaseScreen
from gpututor.app.textual_private import rebind
from gpututor.app.widgets.bars import COMMAND, EDIT, KeyBar, StatusBar, TabBar
from gpututor.app.widgets.course_list import CoursePane
from gpututor.app.widgets.results import CheckRow, Results
from gpututor.course.model import Exercise
from gpututor.errors import TutorError
from gpututor.grading.report_text import count
from gpututor.progress.overview import State, state_of

if TYPE_CHECKING:
    from gpututor.app.main.external_editor import ExternalEditor
    from gpututor.grading.client import GradingService
    from gpututor.hardware.inventory import Inventory

KEEP_PLACE_EVERY_S = 3.0
"""Seconds between saves of the learner's place, which is also saved at the end."""


def _import_the_rest() -> None:
    """Do 60 ms of imports after the first paint, in a thread, so that keys are answered meanwhile."""
    for name in (
        "gpututor.app.editor.editor",
        "pygments.lexers.python",
        "gpututor.app.widgets.markdown",
        "gpututor.app.screens.base",
        "gpututor.progress.recordings",
    ):
        importlib.import_module(name)


class MainScreen(BaseScreen[None]):
    """The screen on which a learner reads, edits and runs exercises."""

    BINDINGS = bindings()
    AUTO_FOCUS = ""

    def __init__(
        self,
        learner: LearnerContext,
        exercise: Exercise,
        client: GradingService,
        *,
        find_devices: Callable[[], Inventory] | None = None,
    ) -> None:
        super().__init__()
        self.learner = learner
        self.exercise = exercise
        self.client = client
        self.panes = Panes(id="panes")
        self.tabs = TabBar([pane.heading for pane in Pane], shrinks=True, id="tabs")
        self.status = StatusBar(id="status")
        self.key_bar = KeyBar(id="keys-line")
        self.files = FileController(self)
        self.attempts = AttemptController(self, self.files)
        self.runs = RunController(self, self.files, self.attempts, client)
        self.learning = LearningController(self, self.files, self.attempts)
        self.navigator = Navigator(self, self.files, self.attempts, self.runs, self.learning)
        self.editing = EditorController(self)
        self.copying = CopyController(self)
        self.commands = {command.id: command for command in COMMANDS}
        """Commands by their ids, with the keys of the settings."""
        self._apply_keys()
        self._find_devices = find_devices
        self._place = ReadingPlace()
        self._is_zoomed = False
        self._is_still = False
        """True if the cursor does not blink."""
        self.is_ready = False
        """True when everything that is mounted after the first paint is ready."""

    @cached_property
    def external_editor(self) -> ExternalEditor:
        from gpututor.app.main.external_editor import ExternalEditor

        return ExternalEditor(self, self.files)

    # Beginning and end

    def compose(self) -> ComposeResult:
        # Only at the first resize, everything would be laid out twice (15 ms).
        classes = layout_classes(*self.app.size)
        self.add_class(*(name for name, applies in classes.items() if applies), update=False)
        yield self.tabs
        yield self.panes
        yield self.status
        yield self.key_bar

    def on_mount(self) -> None:
        if not self.panes.is_attached:
            return  # The learner is leaving already: Textual mounts nothing more.
        # The text is on screen at once; the file, the list and the results, 30 ms of work, come right after it.
        self.watch(self, "focused", self._show_mode, init=False)
        self._place = self.navigator.place_left()
        self.panes.set_class(self.attempts.has_any, "ran")  # the results have their height from the first paint on
        self.show_pane(self._place.pane)
        self.call_after_refresh(self._after_first_paint)

    async def _after_first_paint(self) -> None:
        self.runs.warm()
        runtime.read_later(self.app.stylesheet)
        await asyncio.to_thread(_import_the_rest)
        await self.panes.add_editor()
        self.navigator.return_to(self._place)
        self.panes.editor.turn_colors_on()
        self.apply_settings()
        await self.panes.reader.start()
        # The pane gets the focus after the refresh; a key before that would lose it again.
        self.call_after_refresh(self._become_ready)
        self.set_interval(CHECK_EVERY_S, self.check_disk)
        self.set_interval(KEEP_PLACE_EVERY_S, self.navigator.keep_place)
        if self._find_devices is not None:
            self.runs.find_devices(self._find_devices)
        broken = len(self.learner.course.problems)
        if broken:
            self.status.show_message(f"{count(broken, 'mistake')} in the course: see `gpututor doctor`.")
        elif self.learner.progress.notice:
            self.status.show_message(self.learner.progress.notice)
        elif not self.status.message and (passed := sum(lesson.passed for lesson in self.attempts.lessons)):
            self.status.show_message(
                f"Welcome back: {passed} of {len(self.learner.course.exercises)} exercises passed."
            )

    def _become_ready(self) -> None:
        self.is_ready = True
        self.app.post_message(ReadyForKeys())

    def on_unmount(self) -> None:
        self.attempts.close()
        self.editing.close()
        self.files.leave()

    def leave(self) -> None:
        """End the app, with everything saved and the run stopped."""
        if self.files.is_open and not self.files.save_or_ask(self.leave, leaving=True):
            return
        self.navigator.keep_place()
        if self.running:
            self.runs.gradings.stop()
        self.panes.editor.read_only = True  # text typed from now on would not be saved
        self.app.exit()

    # Services for controllers

    @property
    def editor_text(self) -> str:
        return self.panes.editor.text if self.panes.has_editor else ""

    @property
    def takes_letters(self) -> bool:
        if self.is_in_editor:
            return not self.panes.editor.read_only
        return self.focused is not None and self.focused.check_consume_key("a", "a")

    @property
    def is_in_editor(self) -> bool:
        return self.panes.has_editor and self.focused is self.panes.editor

    @property
    def is_vim_normal(self) -> bool:
        """True if letters are Vim's commands now."""
        return self.is_in_editor and self.panes.editor.mode == "NORMAL"

    @property
    def running(self) -> bool:
        return self.runs.running

    @property
    def planned_device(self) -> str:
        return self.runs.planned_device

    def push(self, screen: Screen[Result], callback: ScreenResultCallbackType[Result] | None = None) -> object:
        return self.app.push_screen(screen, callback)

    def show_error(self, error: TutorError | OSError) -> None:
        from gpututor.app.screens.base import error_dialog

        self.app.push_screen(error_dialog(file_error(error)))

    def start_run(self) -> None:
        self.runs.run_checks()

    def file_loaded(self, *, again: bool = False) -> None:
        self.runs.file_loaded(again=again)

    def lesson_finished(self, slug: str) -> None:
        # After the refresh, when the results are painted.
        self.call_after_refresh(self.learning.celebrate, slug)

    def check_disk(self) -> None:
        if self.learner.settings.reload():
            self.apply_settings()
        self.files.check_disk()
        self.runs.run_if_due()

    def apply_settings(self) -> None:
        settings = self.learner.settings.now
        self.post_message(SettingsChanged())
        if (settings.motion == "none") is not self._is_still:
            self._is_still = not self._is_still
            self.panes.editor.cursor_blink = not self._is_still
        if self.panes.editor.costs_on is not settings.costs:
            self.panes.editor.costs_on = settings.costs
        self.panes.editor.soft_wrap = settings.soft_wrap
        if (self.panes.editor.vim is not None) is not settings.vim:
            self.panes.editor.use_vim(settings.vim)
            self._show_mode()
        if self._apply_keys():
            self.show_keys()
        self.show_file_state()
        fault = f"A setting is invalid. Press {self.letter_of('show_settings')} to see which."
        if self.learner.settings.faults or self.status.message == fault:
            self.status.show_message(fault if self.learner.settings.faults else "")

    def key_of(self, command: str) -> str:
        return key_name(self.commands[command].keys[0])

    def letter_of(self, command: str) -> str:
        return key_name(self.commands[command].letters[0])

    def key_now(self, command: str) -> str:
        return self.key_of(command) if self.takes_letters else self.letter_of(command)

    def _apply_keys(self) -> bool:
        """Bind the keys of the settings; return False if they are bound already."""
        commands = with_keys(COMMANDS, self.learner.settings.now.keys)
        if commands == tuple(self.commands.values()):
            return False
        self.commands = {command.id: command for command in commands}
        rebind(self, bindings(commands))
        self.tabs.show_keys([self.letter_of(f"show_{pane}") for pane in Pane])
        return True

    async def caught_up(self) -> None:
        """Wait until the editor has all the text that was typed so far."""
        # An editor without the focus got no keys. It may not even be imported before the first paint.
        if self.is_in_editor:
            await self.panes.editor.caught_up()

    # Drawing

    def show_pane(self, pane: Pane) -> None:
        self.navigator.show_pane(pane)

    def show_lists(self) -> None:
        lessons, key = self.attempts.lessons, self.exercise.key
        self.panes.course.show(lessons, key)
        self.tabs.show_passed(state_of(key, lessons) is State.PASSED)

    def show_file_state(self) -> None:
        self.status.show_file_state(self.files.state, self.planned_device)

    def show_bars(self) -> None:
        if self.panes.current is not Pane.CODE:
            self.editing.forget_line()
        self.tabs.show(list(Pane).index(self.panes.current), f"{self.exercise.label} {self.exercise.title}")
        self.show_keys()

    def _show_mode(self) -> None:
        vim = self.panes.editor.shown_mode if self.is_in_editor else ""
        self.status.show_mode(vim or (EDIT if self.takes_letters else COMMAND))

    def show_keys(self) -> None:
        panes, course, pane = self.panes, self.panes.course, self.panes.current
        commands = tuple(self.commands[id] for id in ("cancel", *FOOTERS[pane]) if self._is_useful(id))
        keys: tuple[tuple[str, str], ...] = ()
        if course.is_typing:
            commands, keys = (), tuple((hint.key, hint.title) for hint in bar("course_filter"))
        elif self.editing.find_keys:
            commands, keys = (), self.editing.find_keys
        elif pane is Pane.COURSE:
            keys = (("Enter", "Open"), ("/", "Filter"), ("v", course.next_view))
            keys = (*keys, ("Esc", "Show all")) if course.is_narrowed else keys
        elif pane is Pane.CODE and not self.running and panes.has_editor and panes.editor.mode in ("", "NORMAL"):
            keys = (("Esc", "Leave"),)
        if self._is_zoomed and commands and not layout_classes(*self.app.size)["-narrow"]:
            zoom = self.commands["zoom"]
            keys = (*keys, (key_name((zoom.keys if pane is Pane.CODE else zoom.letters)[0]), "All panes"))
        self.key_bar.show(*footer(commands, in_editor=pane is Pane.CODE, keys=keys))

    def _is_useful(self, command: str) -> bool:
        pane, has_passed = self.panes.current, self.panes.results.has_passed
        match command:
            case "cancel":
                return self.running
            case "run_checks":
                return not self.running
            case "go_back":
                return self.navigator.can_go_back
            case "go_to_failure":
                failure = self.panes.results.first_failure
                return failure is not None and failure.verdict.line is not None
            case "open_check":
                row = self.focused
                return isinstance(row, CheckRow) and row.verdict.status.is_finding and not row.is_open
            case "show_history":
                return self.panes.has_class("ran")
            case "next_exercise" | "show_solution" if pane is Pane.CODE and not has_passed:
                return False
            case "next_exercise":
                return self.learner.course.after(self.exercise) is not None
            case "open_hint":
                if has_passed and pane in (Pane.CODE, Pane.RESULTS):
                    return False  # the solution and the next exercise need the space
                return pane is not Pane.HINTS or not self.learning.all_hints_used
            case _:
                return True

    # Commands

    async def action_run_command(self, id: str) -> None:
        result = attrgetter(self.commands[id].handler)(self)()
        if isawaitable(result):
            await result

    async def action_after_text(self, id: str) -> None:
        """Run a command once the editor has the text that was typed before it: such keys overtake letters."""
        await self.caught_up()
        await self.action_run_command(id)

    def cancel(self) -> None:
        """Close the completions or the find bar, or stop the run, or show the whole list, or leave the pane."""
        if self.editing.close_help() or self.editing.leave_mode():
            return
        if self.running:
            self.runs.stop()
        elif self.panes.current is Pane.COURSE and (self.panes.course.is_narrowed or self.panes.course.is_typing):
            self.panes.course.clear()
        else:
            is_back_to_results = self.panes.current is Pane.CODE and self.panes.results_were_last
            self.show_pane(Pane.RESULTS if is_back_to_results else Pane.TASK)

    def go_to_failure(self) -> None:
        row = self.panes.results.first_failure
        if row is None or row.place is None:
            self.status.show_reply("No failed check points at a line.")
            return
        self.post_message(row.place)

    def open_check(self) -> None:
        if isinstance(self.focused, CheckRow):
            self.focused.action_open_or_close()

    def show_help(self) -> None:
        from gpututor.app.screens.help import TextScreen, help_content

        pane = self.panes.current
        self.app.push_screen(
            TextScreen(f"{pane.heading}, and all keys", partial(help_content, pane, list(self.commands.values())))
        )

    def show_glossary(self, anchor: str = "") -> None:
        from gpututor.app.screens.help import TextScreen, glossary_content

        text = self.learner.course.glossary
        if not text:
            self.status.show_reply("This course has no glossary.")
            return
        word = next((word for word in glossary_words(text) if slug(word) == anchor), "")
        self.app.push_screen(TextScreen("Glossary", partial(glossary_content, text, chosen=word), at=word))

    def show_documentation_of(self, name: str) -> None:
        self.editing.show_documentation_of(name)

    def show_settings(self, at: str = "") -> None:
        """Show the settings, with the cursor on the one of the key `at`."""
        from gpututor.app.screens.settings import SettingsScreen

        installed = lambda: self.external_editor.installed()  # noqa: E731
        self.app.push_screen(SettingsScreen(self.learner.settings, self.apply_settings, installed, at))

    # Events and messages

    def on_text_area_changed(self) -> None:
        self.attempts.text_changed()
        self.editing.text_changed()
        self.files.text_changed()

    def on_text_area_selection_changed(self) -> None:
        self.editing.describe_line()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.navigator.pane_clicked(self.get_widget_at(event.screen_x, event.screen_y)[0])

    @on(events.Resize)
    def _arrange(self) -> None:
        self.editing.close_completions()
        self.update_classes(layout_classes(*self.app.size, zoomed=self._is_zoomed))
        self.show_keys()

    def zoom(self) -> None:
        """Show only the pane in front, or all panes again."""
        if layout_classes(*self.app.size)["-narrow"]:
            self.status.show_reply("This terminal shows one pane at a time already.")
            return
        self._is_zoomed = not self._is_zoomed
        self._arrange()
        self.show_pane(self.panes.current)

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        self.key_bar.visible = False  # a dialog names its own keys, and these do nothing while it is open
        self.files.save()

    @on(events.ScreenResume)
    def _resumed(self) -> None:
        self.key_bar.visible = True
        self.check_disk()

    @on(EditorLeft)
    def _editor_left(self) -> None:
        self.files.save()

    @on(ModeChanged)
    def _mode_changed(self) -> None:
        self._show_mode()
        self.show_keys()

    @on(FindRequested)
    async def _find_requested(self, message: FindRequested) -> None:
        if message.by:
            await self.editing.find_again(message.by, message.word)
        else:
            await self.editing.find()

    @on(EditorReplied)
    def _editor_replied(self, message: EditorReplied) -> None:
        self.status.show_reply(message.sentence)

    @on(events.DescendantFocus)
    @on(CheckRow.Opened)
    @on(CoursePane.Narrowed)
    def _keys_changed(self) -> None:
        self.show_keys()
        self.show_file_state()

    @on(KeyBar.Chosen)
    async def _command_chosen(self, message: KeyBar.Chosen) -> None:
        await self.action_after_text(message.id)

    @on(TabBar.Chosen)
    def _tab_chosen(self, message: TabBar.Chosen) -> None:
        self.show_pane(list(Pane)[message.number])

    @on(ExerciseChosen)
    def _exercise_chosen(self, message: ExerciseChosen) -> None:
        self.navigator.open_chosen(message.key, message.with_lesson)

    @on(LessonChosen)
    def _lesson_chosen(self, message: LessonChosen) -> None:
        self.navigator.read_chosen(message.slug)

    @on(LinkFollowed)
    def _link_followed(self, message: LinkFollowed) -> None:
        self.navigator.follow(message.target)

    @on(LineChosen)
    def _line_chosen(self, message: LineChosen) -> None:
        self.editing.go_to_line(message.line, message.of, message.error)

    @on(Results.Progressed)
    def _run_progressed(self, message: Results.Progressed) -> None:
        self.runs.show_progress(message.words)

    @on(GradingProgressed)
    def _grading_progressed(self, message: GradingProgressed) -> None:
        self.runs.follow(message.run, message.event)
