"""The part of the main screen that looks around: what was chosen, which devices are here, how far the learner is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpututor.app.main.learning import LearnScreen
from gpututor.app.messages import DevicesFound, ExerciseChosen, LessonChosen, SettingsChanged
from gpututor.errors import TutorError
from gpututor.settings import SettingsFile

if TYPE_CHECKING:
    from gpututor.grading.inventory import Inventory


class AroundScreen(LearnScreen):
    """A desk that does as the settings say."""

    _seen_text = ""
    """What the editor held when it was last looked at, for runs that nobody asks for."""
    _is_still = False
    """Whether the cursor was kept from blinking."""
    _others_text = ""
    """What another program wrote last."""

    @property
    def settings(self) -> SettingsFile:
        return self.learner.settings

    # What was chosen

    def tick(self) -> None:
        if self.settings.look():
            self.apply_settings()
        super().tick()
        self._run_by_itself()

    def apply_settings(self) -> None:
        """Let hold what was chosen; say when something in the file could not be taken."""
        chosen = self.settings.now
        self.post_message(SettingsChanged())
        if (chosen.motion == "none") is not self._is_still:
            self._is_still = not self._is_still
            self.panes.editor.cursor_blink = not self._is_still
        if self.panes.editor.costs_on is not chosen.costs:
            self.panes.editor.costs_on = chosen.costs
        self.show_standing()
        if self.settings.faults:
            self.status.show_news("A setting could not be taken. Press , to see which.")

    def action_settings(self) -> None:
        from gpututor.app.screens.settings import SettingsScreen

        self.app.push_screen(SettingsScreen(self.settings, self.apply_settings))

    def action_costs(self) -> None:
        super().action_costs()
        try:
            self.settings.choose("costs", self.panes.editor.costs_on)
        except TutorError as error:
            self.show_error(error)

    # Devices

    def action_devices(self) -> None:
        from gpututor.app.screens.devices import DevicesScreen
        from gpututor.health import findings

        course, workspace = self.learner.course.folder, self.learner.workspace.folder
        look = partial(findings, course, workspace)

        def know(inventory: Inventory | None) -> None:
            if inventory is not None:
                self.post_message(DevicesFound(inventory))

        screen = DevicesScreen(self.settings, self.exercise, self._inventory, look, self.apply_settings)
        self.app.push_screen(screen, know)

    # Progress

    def action_progress(self) -> None:
        from gpututor.app.screens.progress import Choice, ProgressScreen

        def go_on(choice: Choice | None) -> None:
            match choice:
                case Choice("lesson", slug):
                    self.post_message(LessonChosen(slug))
                case Choice("exercise", key):
                    self.post_message(ExerciseChosen(key))
                case Choice("again", key):
                    self.call_later(self.begin_again, key)
                case _:
                    return

        self.app.push_screen(ProgressScreen(self.learner.course, self.learner.progress), go_on)

    def begin_again(self, key: str) -> None:
        """Open an exercise, and ask whether its file is to be put back to the starter."""
        exercise = next(one for one in self.learner.course.exercises if one.key == key)
        leaves = self._desk is not None and exercise.key != self.exercise.key
        # What is asked about the file that is left comes first: else its answer would begin that one anew.
        if leaves and not self.save_or_ask(partial(self.begin_again, key), leaving=True):
            return
        self.post_message(ExerciseChosen(key))
        self.call_later(self.action_reset)

    # Runs that nobody asks for

    def load_file(self) -> bool:
        loaded = super().load_file()
        self._seen_text = self._others_text = self.editor_text
        return loaded

    def start_run(self, *, quietly: bool = False) -> None:
        super().start_run(quietly=quietly)
        self._seen_text = self.editor_text

    def _take(self, text: str) -> None:
        super()._take(text)
        self._others_text = self.editor_text

    def _run_by_itself(self) -> None:
        """Run the checks on a file that was just saved, where the settings want that."""
        when, text = self.settings.now.auto_run, self.editor_text
        if when == "asked" or text == self._seen_text or not self.is_saved or not self.is_current:
            return
        self._seen_text = text
        if text != self._others_text:
            if when == "other editor":
                return
            if fault := _syntax_fault(text):
                self.status.show_news(f"Saved, not run: {fault}")
                return
        self.start_run(quietly=True)


def _syntax_fault(text: str) -> str:
    """Why the text is no Python yet, in words; empty when it is. 1 ms for 200 lines."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except SyntaxError as error:
            return f"line {error.lineno} is not finished."
        except ValueError:
            return "it holds a null character."
    return ""
