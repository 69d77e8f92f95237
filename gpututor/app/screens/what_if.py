"""An attempt on other models of the virtual GPU, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Input

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.runtime import in_thread, write_log
from gpututor.app.screens.base import BaseScreen
from gpututor.app.trace_view.model import RunView
from gpututor.app.widgets.base import PlainText
from gpututor.errors import TutorError, UsageError

if TYPE_CHECKING:
    from gpututor.grading.client import GradingService
    from gpututor.grading.events import GradeRequest
    from gpututor.progress.recordings import Recordings
    from gpututor.trace.text import Candidate

_ABOUT = "Your file as it ran then, graded on each model. Figures are modelled, of all calls; no attempt is saved."


class WhatIfScreen(BaseScreen[None]):
    """Grades an attempt on each model of a list, in a thread. A row appears as soon as its grading has ended."""

    BINDINGS = screen_bindings("what_if")

    def __init__(self, view: RunView, request: GradeRequest, client: GradingService, recordings: Recordings) -> None:
        """`recordings` provides folders for the gradings' recordings, which are removed afterwards."""
        super().__init__()
        self._view = view
        self._request = request
        self._client = client
        self._recordings = recordings
        self._run = 0
        """Number of the newest run; messages of earlier runs are ignored."""
        self._waiting: list[str] = []
        """Models without a row yet; empty if nothing runs."""
        self._rows: list[Candidate] = []
        self._models = Input(compact=True)
        self._table = PlainText("", classes="table")
        self._state = PlainText("", classes="state")

    def compose(self) -> ComposeResult:
        yield PlainText(f"{self._view.title}: what if it ran on another GPU?", classes="title")
        yield PlainText(f"Attempt {self._view.attempt}. {_ABOUT}", classes="about")
        yield self._models
        with VerticalScroll(can_focus=False):
            yield self._table
            yield self._state
        yield PlainText(foot("what_if"), classes="foot")

    def on_mount(self) -> None:
        in_thread(self._prepare)  # NumPy takes 80 ms

    def _prepare(self) -> None:
        from gpututor.app.trace_view.what_if import offered_models

        self.call_later(self._offer, ", ".join(offered_models(self._view)))

    def _offer(self, models: str) -> None:
        if not self._models.value:
            self._models.value = models
            self._models.action_select_all()  # typing replaces the offer
        self._models.focus()

    @on(Input.Submitted)
    def _start(self, message: Input.Submitted) -> None:
        from gpututor.app.trace_view.what_if import compared_run, read_models

        message.stop()
        self._stop()
        try:
            models = read_models(message.value)
        except UsageError as error:
            self._state.update(f"{error.title} {error.advice}")
            return
        self._rows, self._waiting = [], models
        self._draw("" if models else "Name one or more models, such as T4, H100.")
        in_thread(self._follow, self._run, tuple(models), compared_run(self._view).scenario)

    def _follow(self, run: int, models: tuple[str, ...], scenario: str) -> None:
        """Grade on each model until the run is stopped. For a thread."""
        from gpututor.app.trace_view.what_if import grade_on
        from gpututor.trace.text import Candidate

        for model in models:
            if run != self._run:
                return
            folder = self._recordings.create_pending()
            row: Candidate | None
            try:
                row = grade_on(model, self._request, self._client, scenario, folder)
            except TutorError as error:
                row = Candidate(model, None, 0.0, 0, 0, None, error.title, verdict="-")
            except Exception as error:
                write_log(error)
                words = f"The grader stopped in an unexpected way: {error!r}"
                row = Candidate(model, None, 0.0, 0, 0, None, words, verdict="-")
            finally:
                self._recordings.discard(folder)
            self.call_later(self._add, run, row)

    def _add(self, run: int, row: Candidate | None) -> None:
        if run != self._run:
            return
        if row is None:  # another grading replaced it
            self._waiting = []
            self._draw("Stopped.")
            return
        self._rows.append(row)
        self._waiting = self._waiting[1:]
        self._draw("")

    def _draw(self, words: str) -> None:
        from gpututor.trace.text import comparison

        self._table.update(comparison(self._rows, modelled=True) if self._rows else "")
        running = f"… Running on {self._waiting[0]}. Esc stops it." if self._waiting else ""
        self._state.update(words or running)

    def _stop(self) -> bool:
        """Stop the run; return False if nothing runs."""
        is_running = bool(self._waiting)
        self._run += 1
        self._waiting = []
        if is_running:
            self._client.cancel()
        return is_running

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by * 5, animate=False)

    def action_close(self) -> None:
        """Stop the run; if nothing runs, close."""
        if self._stop():
            self._draw("Stopped.")
        else:
            self.dismiss(None)

    def on_unmount(self) -> None:
        self._stop()
