"""The learner's own editor: which command opens the file in it at a line, and how it is run."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from types import FrameType
from typing import Protocol

from textual.app import SuspendNotSupported
from textual.widget import Widget

from gpututor.app.commands import Pane
from gpututor.app.main.files import FileController
from gpututor.app.main.host import Host
from gpututor.app.messages import OwnEditorEnded
from gpututor.app.widgets.results import CheckRow
from gpututor.errors import TutorError, UsageError

EDITOR_GRACE_S = 2.0
"""Time that an editor has to end when the app has to."""


class ExternalEditorHost(Host, Protocol):
    """A screen with a line of interest."""

    @property
    def focused(self) -> Widget | None: ...

    def check_disk(self) -> None:
        """Look at once what was saved elsewhere."""


class ExternalEditor:
    """Takes the open file to the learner's own editor."""

    def __init__(self, host: ExternalEditorHost, files: FileController) -> None:
        self._host = host
        self._files = files

    def open_file(self) -> None:
        """Open the file outside, at the cursor or at the failure that is looked at; all edits are saved before."""
        if not self._files.save_or_ask(self.open_file):
            return
        try:
            command = editor_command(
                self._host.learner.workspace.path_of(self._host.exercise),
                self._line_of_interest(),
                environment=os.environ,
                setting=self._host.learner.settings.now.editor,
                which=shutil.which,
                columns=self._host.panes.app.size.width,
            )
        except TutorError as error:
            self._host.show_error(error)
            return
        if command.place is Place.TERMINAL:
            self._run_in_place(command)
            return
        self._host.status.show_news(OPENED[command.place].format(command.program))
        threading.Thread(target=self._run_apart, args=(command,), daemon=True).start()

    def _line_of_interest(self) -> int:
        """Return the line to open, from 1."""
        row, failure = self._host.focused, self._host.panes.results.first_failure
        if isinstance(row, CheckRow) and row.verdict.line is not None:
            return row.verdict.line
        if self._host.panes.current is Pane.RESULTS and failure is not None and failure.verdict.line is not None:
            return failure.verdict.line
        return self._host.panes.editor.cursor_location[0] + 1

    def _run_in_place(self, command: EditorCommand) -> None:
        """Give the terminal to the editor, and take it back when it ends."""
        try:
            with self._host.panes.app.suspend():
                fault = _run(command)
        except SuspendNotSupported:
            self._host.show_error(
                UsageError(
                    f"{command.program} needs the terminal, and this one cannot be given away.",
                    "Choose an editor with a window of its own, such as `code`.",
                )
            )
            return
        self._host.panes.app.refresh(layout=True)
        self._host.status.show_news(f"Back from {command.program}.")
        if fault is None:
            self._host.check_disk()
        else:
            self._host.show_error(fault)

    def _run_apart(self, command: EditorCommand) -> None:
        fault = _run(command, apart=True)
        self._host.post_message(OwnEditorEnded(command.program, fault))

    def tell_of_end(self, message: OwnEditorEnded) -> None:
        """Report an editor that ended with an error."""
        if message.fault is not None:
            self._host.show_error(message.fault)


def _run(command: EditorCommand, *, apart: bool = False) -> TutorError | None:
    """Run the editor to its end; return what went wrong. `apart`: it has no part in this terminal."""
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


class _EndRequested(Exception):
    """The app got a signal that ends it, while it waits for an editor."""


class _Signals:
    """Signals that came to the app while an editor has the terminal."""

    def __init__(self) -> None:
        self.ending: int | None = None
        """The signal that ends the app, once it has come."""
        self.breaks_off = False
        """True if the signal raises `_EndRequested`, once."""

    def end(self, number: int, frame: FrameType | None) -> None:
        self.ending = number
        if self.breaks_off:
            self.breaks_off = False
            raise _EndRequested


def _run_in_terminal(words: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    """Run a program that has the terminal. A signal that ends the app goes to the program, too."""
    with _signals_while_waiting() as signals:
        editor = subprocess.Popen(words)  # a signal that comes now is only noted: the editor must have a name first
        with suppress(_EndRequested):
            signals.breaks_off = True
            if signals.ending is None:
                editor.wait()
            signals.breaks_off = False
        if signals.ending is None:
            return subprocess.CompletedProcess(words, editor.returncode)
        editor.send_signal(signals.ending)
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


# Which command


class Place(Enum):
    """Places where an editor shows itself."""

    TERMINAL = auto()
    """Here: the app steps aside until the editor ends."""
    SPLIT = auto()
    """In a pane of tmux next to the app."""
    TMUX_WINDOW = auto()
    """In a window of tmux, where there is no space next to the app."""
    OUTSIDE = auto()
    """In a window of the desktop, or in the editor that this terminal is a part of."""


@dataclass(frozen=True)
class EditorCommand:
    """A command that opens the file."""

    words: tuple[str, ...]
    place: Place
    program: str
    """The editor's name, for people."""
    origin: str
    """Source of the choice: `$VISUAL`, `$EDITOR`, `the settings` or `VS Code's terminal`."""


OPENED = {
    Place.SPLIT: "{} is beside this. What you save there is seen here.",
    Place.TMUX_WINDOW: "{0} has a tmux window of its own: leave {0} to come back here.",
    Place.OUTSIDE: "Your file is open in {}. What you save there is seen here.",
}
"""Reports for editors that leave the terminal to the app."""

THE_SETTINGS = "the settings"
ROOM_BESIDE = 100
"""Columns that an editor next to the app needs; with fewer it gets a tmux window."""

_WITH_WINDOWS = ("gvim", "mvim", "nvim-qt", "gedit", "gnome-text-editor", "xed", "pluma")
_PLUS_LINE = (
    *("vi", "vim", "nvim", "view", "nvi", "elvis", "vile", "kak", "hx", "helix", "micro"),
    *("nano", "rnano", "pico", "emacs", "emacsclient", "jmacs", "mg", "joe", "jed", "ne", "mcedit"),
    *_WITH_WINDOWS,
)
_GOTO = ("code", "code-insiders", "codium", "vscodium", "cursor", "windsurf")
_COLON = ("subl", "sublime_text", "zed", "zeditor")
_LINE_OPTION = ("kate", "kwrite", "idea", "pycharm", "charm")
_OUTSIDE = (*_GOTO, *_COLON, *_LINE_OPTION, *_WITH_WINDOWS)
_NO_WAITING = (*_GOTO, *_COLON)
"""Editors with an option that waits until the file is closed; here it is dropped."""
_IN_VS_CODE = ("code", "code-insiders", "codium", "cursor", "windsurf")

Which = Callable[[str], str | None]


def editor_command(
    file: Path, line: int, *, environment: Mapping[str, str], setting: str, which: Which, columns: int
) -> EditorCommand:
    """Return the command that opens `file` at `line`, counted from 1, on a terminal of so many columns.

    `setting`, what gpututor's own settings say ("" for nothing), comes before `$VISUAL`, and that before `$EDITOR`. In
    the terminal of VS Code, VS Code itself replaces a `$VISUAL` or `$EDITOR` that would cover the app. `which`
    finds a program as `shutil.which` does. Raises `UsageError` for no editor and for a missing program.
    """
    words, origin = _chosen(environment, setting)
    keeps = origin == THE_SETTINGS or (words and _place(words) is Place.OUTSIDE)
    if environment.get("TERM_PROGRAM") == "vscode" and not keeps:
        own = next((name for name in _IN_VS_CODE if which(name)), None)
        if own is not None:
            words, origin = [own], "VS Code's terminal"
    if not words:
        raise UsageError(
            "No editor is chosen yet.",
            "Name one in the settings (the comma key); or leave, say `export EDITOR=nano`, and come back.",
        )
    program = which(os.path.expanduser(words[0]))
    if program is None:
        raise UsageError(
            f"There is no program called {words[0]}, which {origin} names as your editor.",
            f"Install it, or let {origin} name another.",
        )
    name = _name(words)
    options = [word for word in words[1:] if not (name in _NO_WAITING and word in ("-w", "--wait"))]
    command = (program, *options, *_at_line(name, file, line))
    place = _place(words)
    if place is Place.TERMINAL and environment.get("TMUX") and (tmux := which("tmux")):
        place = Place.SPLIT if columns >= ROOM_BESIDE else Place.TMUX_WINDOW
        # Without a target, tmux takes the pane of $TMUX_PANE: the app's, wherever the learner looks at the moment.
        # The window's name is what is read there, below the editor: tmux shows it all the time.
        beside, window = ("split-window", "-h"), ("new-window", "-a", "-n", f"leave {name} to return")
        begin = beside if place is Place.SPLIT else window
        command = (tmux, *begin, "-c", str(file.parent), *command)
    return EditorCommand(command, place, name, origin)


def _chosen(environment: Mapping[str, str], setting: str) -> tuple[list[str], str]:
    """Return the words of the editor that counts, and their source. Raises `UsageError` for a quote without an end."""
    variables = [(f"${name}", environment.get(name, "")) for name in ("VISUAL", "EDITOR")]
    for origin, text in ((THE_SETTINGS, setting), *variables):
        try:
            words = shlex.split(text)
        except ValueError as error:
            problem = f"What {origin} names as your editor cannot be understood: {text}"
            raise UsageError(problem, "A quote has no end. Quotes go around a path with spaces in it.") from error
        if words:
            return words, origin
    return [], ""


def _name(words: list[str]) -> str:
    return os.path.basename(words[0]).removesuffix(".exe")


def _place(words: list[str]) -> Place:
    """Return where the editor opens by itself. If it may have a window or not, the terminal, where both work."""
    name, options = _name(words), set(words[1:])
    match name:
        case "emacsclient":
            return Place.TERMINAL if options & {"-t", "-nw", "--tty"} else Place.OUTSIDE
        case "vi" | "vim" if options & {"-g", "--gui"}:
            return Place.OUTSIDE
        case _:
            return Place.OUTSIDE if name in _OUTSIDE else Place.TERMINAL


def _at_line(name: str, file: Path, line: int) -> tuple[str, ...]:
    """Return the words that name the file, and the line for editors that take it."""
    if name in _GOTO:
        return ("--goto", f"{file}:{line}")
    if name in _COLON:
        return (f"{file}:{line}",)
    if name in _LINE_OPTION:
        return ("--line", str(line), str(file))
    if name in _PLUS_LINE:
        return (f"+{line}", str(file))
    return (str(file),)
