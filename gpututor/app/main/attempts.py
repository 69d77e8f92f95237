"""The part of the main screen that keeps the attempts at an exercise, and shows older ones."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on

from gpututor.app.commands import Pane
from gpututor.app.main.editing import EditScreen
from gpututor.app.main.saving import Learner
from gpututor.app.messages import AttemptKept, AttemptLost, NoteLost
from gpututor.app.words import moment
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError, TutorError
from gpututor.files import back_up_text
from gpututor.grading.report import Report
from gpututor.plain_text import with_newlines
from gpututor.progress.notes import Note
from gpututor.progress.store import Attempt

if TYPE_CHECKING:
    from gpututor.app.screens.history import Chosen
    from gpututor.progress.keeper import Keeper
    from gpututor.progress.recordings import Recordings


class AttemptsScreen(EditScreen):
    """A desk with the attempts at its exercise."""

    running = False
    """Whether the checks are running; the layer above sets it."""

    def __init__(self, learner: Learner, exercise: Exercise) -> None:
        super().__init__(learner, exercise)

    @cached_property
    def recordings(self) -> Recordings:
        """What the devices did in the attempts that are kept; imported after the first paint."""
        from gpututor.progress.recordings import Recordings

        return Recordings.beside(self.learner.progress)

    @cached_property
    def _keeper(self) -> Keeper:
        from gpututor.app.log import write_log
        from gpututor.progress.keeper import Keeper

        return Keeper(self.learner.progress.path, self.recordings, log=write_log)

    @property
    def planned_device(self) -> str:
        """Where the next run will be; the layer above knows."""
        return ""

    def keep_attempt(self, run: int, report: Report, source: str, part: Path | None) -> None:
        """Keep an attempt at any exercise, with what was recorded in `part`; it is posted what became of it."""
        from gpututor.progress.keeper import Graded

        def tell(kept: int | TutorError) -> None:
            if isinstance(kept, TutorError):
                self.post_message(AttemptLost(run, report, kept))
            else:
                self.post_message(AttemptKept(run, report, kept))

        self._keeper.keep(Graded(report, source, part), tell)

    def note(self, note: Note) -> None:
        """Keep it soon, in its order among the attempts; where that cannot be, it is told."""
        self._keeper.note(note, lambda error: self.post_message(NoteLost(error)))

    @on(NoteLost)
    def _tell_of_lost_note(self, message: NoteLost) -> None:
        self.status.show_news(message.error.title)

    def on_unmount(self) -> None:
        if "_keeper" in self.__dict__:
            self._keeper.wait(1.0)  # what takes longer is waited for when the process ends

    def action_all_text(self) -> None:
        """Show in full what the results pane has only the beginning of."""
        from gpututor.app.screens.all_text import AllTextScreen

        results = self.panes.results
        if not results.sections:
            self.status.show_answer("There are no results yet.")
            return
        self.app.push_screen(AllTextScreen(results.sections, results.section))

    def action_history(self) -> None:
        """Show all attempts at the exercise."""
        from gpututor.app.screens.history import HistoryScreen, Shelf

        progress, key = self.learner.progress, self.exercise.key
        none: list[int] = []
        ids = self.from_progress(partial(progress.ids, key), none)
        if not ids:
            self.status.show_answer("No attempt yet: ^s saves your file and runs the checks.")
            return
        shelf = Shelf(ids, progress.attempt, partial(progress.best, key))
        title = f"{self.exercise.label} {self.exercise.title}"
        self.app.push_screen(HistoryScreen(title, shelf, self._starter()), self._go_on_with)

    def _starter(self) -> str:
        try:
            return self.exercise.starter
        except CourseError:
            return ""

    async def _go_on_with(self, chosen: Chosen | None) -> None:
        if chosen is None:
            return
        match chosen.what:
            case "report":
                self.show_attempt(chosen.attempt)
            case "text":
                self.take_back(chosen.attempt)
            case "device":
                await self.see_attempt(chosen.attempt)
            case "compare":
                await self.compare_attempt(chosen.attempt)

    async def see_attempt(self, attempt: Attempt) -> None:
        """Show what the device did in an attempt; the layers above know how."""

    async def compare_attempt(self, attempt: Attempt) -> None:
        """Set an attempt beside another one; the layers above know how."""

    def show_attempt(self, attempt: Attempt) -> None:
        """Show the report of any attempt in the results pane; the file stays as it is."""
        newest = self.from_progress(partial(self.learner.progress.latest, self.exercise.key), None)
        if newest is not None and attempt.id == newest.id and not self.running:
            self.show_last_report()
        elif self.running:
            self.status.show_answer("The checks are running: their results come first.")
            return
        else:
            when = moment(attempt.report.started_at, datetime.now().astimezone())
            news = f"This is attempt {attempt.number}, an older one ({when}). Your file is as it was."
            self.panes.add_class("ran")
            self.panes.results.show_report(attempt.report, attempt.source or "", news, older=True)
        self.show_pane(Pane.RESULTS)

    def take_back(self, attempt: Attempt) -> None:
        """Put the text of an attempt into the editor; what was there is kept in `.backups`, and undo brings it back."""
        if attempt.source is None or not self.save_or_ask(partial(self.take_back, attempt)):
            return
        text = with_newlines(attempt.source)
        if text == self.editor_text:
            self.status.show_answer(f"Your file is that of attempt {attempt.number} already.")
        else:
            assert self._desk is not None
            try:
                kept = back_up_text(self.editor_text, self._desk.path.name, self.learner.workspace.backups)
            except OSError as error:
                self.show_error(error)
                return
            self.panes.editor.replace_all(text)
            self.save()
            self.status.show_news(f"The text of attempt {attempt.number}. Kept: .backups/{kept.name}")
        self.show_pane(Pane.CODE)

    def show_last_report(self) -> None:
        """Show the newest attempt at the exercise, if there is one."""
        attempt = self.from_progress(partial(self.learner.progress.latest, self.exercise.key), None)
        results = self.panes.results
        self.panes.set_class(attempt is not None, "ran")
        if attempt is None:
            results.show_nothing("○ Not run yet. ^s saves your file and runs the checks.", f"On {self.planned_device}")
            return
        import hashlib

        report = attempt.report
        text = self.editor_text
        same = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() == report.submission_sha256
        results.show_report(report, text if same else attempt.source or "", "This is your last run.")
        results.compare_with(text)

    def on_text_area_changed(self) -> None:
        self.panes.results.compare_with(self.editor_text)
