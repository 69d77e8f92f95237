"""The part of the main screen that opens the learner's file in the learner's own editor."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from textual import on
from textual.app import SuspendNotSupported

from gpututor.app.commands import Pane
from gpututor.app.main.sharing import SharingScreen
from gpututor.app.messages import OwnEditorEnded
from gpututor.app.widgets.verdict_row import VerdictRow
from gpututor.errors import TutorError, UsageError

if TYPE_CHECKING:
    from gpututor.app.own_editor import EditorCommand


EDITOR_GRACE_S = 2.0
"""How long an editor may take to end when the app has to."""


class OutsideScreen(SharingScreen):
    """A desk whose file can be taken to another editor."""

    def action_open_in_editor(self) -> None:
        """Open the file outside, at the cursor or at the failure that is looked at; all edits are saved before."""
        if not self.save_or_ask(self.action_open_in_editor):
            return
        from gpututor.app.own_editor import OPENED, Place, editor_command

        try:
            command = editor_command(
                self.learner.workspace.path_of(self.exercise),
                self._line_of_interest(),
                environment=os.environ,
                setting=self.learner.settings.now.editor,
                which=shutil.which,
                columns=self.app.size.width,
            )
        except TutorError as error:
            self.show_error(error)
            return
        if command.place is Place.TERMINAL:
            self._run_in_place(command)
            return
        self.status.show_news(OPENED[command.place].format(command.program))
        threading.Thread(target=self._run_apart, args=(command,), daemon=True).start()

    def _line_of_interest(self) -> int:
        """Counted from 1."""
        row, failure = self.focused, self.panes.results.first_failure
        if isinstance(row, VerdictRow) and row.verdict.line is not None:
            return row.verdict.line
        if self.panes.current is Pane.RESULTS and failure is not None and failure.verdict.line is not None:
            return failure.verdict.line
        return self.panes.editor.cursor_location[0] + 1

    def _run_in_place(self, command: EditorCommand) -> None:
        """Give the terminal to the editor, and take it back when it ends."""
        try:
            with self.app.suspend():
                fault = _run(command)
        except SuspendNotSupported:
            self.show_error(
                UsageError(
                    f"{command.program} needs the terminal, and this one cannot be given away.",
                    "Choose an editor with a window of its own, such as `code`.",
                )
            )
            return
        self.app.refresh(layout=True)
        self.status.show_news(f"Back from {command.program}.")
        if fault is None:
            self.tick()
        else:
            self.show_error(fault)

    def _run_apart(self, command: EditorCommand) -> None:
        fault = _run(command, apart=True)
        self.post_message(OwnEditorEnded(command.program, fault))

    @on(OwnEditorEnded)
    def _tell_of_editor(self, message: OwnEditorEnded) -> None:
        if message.fault is not None:
            self.show_error(message.fault)


def _run(command: EditorCommand, *, apart: bool = False) -> TutorError | None:
    """Run the editor to its end; what went wrong, if anything did. `apart`: it has no part in this terminal."""
    program = os.path.basename(command.words[0])
    try:
        ended = _run_without_terminal(command.words) if apart else _run_in_terminal(command.words)
    except OSError as error:
        return UsageError(f"{program} cannot be started: {error.strerror or error}.", f"Look at {command.origin}.")
    if ended.returncode == 0:
        return None
    said = (ended.stderr or b"").decode("utf-8", "replace").strip().rpartition("\n")[2]
    return UsageError(
        f"{program} ended with exit code {ended.returncode}{': ' if said else '.'}{said}",
        f"It was started by {command.origin}, as\n{' '.join(command.words)}\n\nYour file is as it was left.",
    )


def _run_without_terminal(words: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    """Run a program that has no part in this terminal."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        check=False,
    )


class _ToldToEnd(Exception):
    """The app got a signal that ends it, while it waits for an editor."""


class _Signals:
    """What signals told the app while an editor has the terminal."""

    def __init__(self) -> None:
        self.told: int | None = None
        """The signal that ends the app, once it has come."""
        self.breaks_off = False
        """Whether it raises `_ToldToEnd`, once."""

    def end(self, number: int, frame: FrameType | None) -> None:
        self.told = number
        if self.breaks_off:
            self.breaks_off = False
            raise _ToldToEnd


def _run_in_terminal(words: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    """Run a program that has the terminal. When the app is told to end, so is the program, which saves what it has."""
    with _signals_while_waiting() as signals:
        editor = subprocess.Popen(words)  # a signal that comes now is only noted: the editor must have a name first
        with suppress(_ToldToEnd):
            signals.breaks_off = True
            if signals.told is None:
                editor.wait()
            signals.breaks_off = False
        if signals.told is None:
            return subprocess.CompletedProcess(words, editor.returncode)
        editor.send_signal(signals.told)
        # One that does not end keeps the terminal and the text in it. The app's own end comes from its event loop,
        # which has heard of the signal, too.
        with suppress(subprocess.TimeoutExpired):
            editor.wait(EDITOR_GRACE_S)
        return subprocess.CompletedProcess(words, 0)


@contextmanager
def _signals_while_waiting() -> Iterator[_Signals]:
    """Ctrl-C is the editor's, but comes here, too. It gets a handler, not SIG_IGN, which the editor would inherit."""
    signals = _Signals()
    handlers = {signal.SIGINT: lambda number, frame: None, signal.SIGTERM: signals.end, signal.SIGHUP: signals.end}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
