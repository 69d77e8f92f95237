"""The learner's own editor: the command that opens the file at a line, and running it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from types import FrameType

from textual.app import SuspendNotSupported

from gpututor.app.commands import Pane
from gpututor.app.main.files import FileController
from gpututor.app.main.host import Host
from gpututor.app.runtime import in_thread
from gpututor.app.widgets.results import CheckRow
from gpututor.errors import NoEditor, TutorError, UsageError

EDITOR_GRACE_S = 2.0
"""Seconds that an editor has to end after a signal that ends the app."""
LOOK_EVERY_S = 0.2
"""Seconds between checks for such a signal."""


class ExternalEditor:
    """Opens the file in the learner's own editor."""

    def __init__(self, host: Host, files: FileController) -> None:
        self._host = host
        self._files = files

    def open_file(self) -> None:
        """Save, then open the file at the focused failure or at the cursor."""
        if not self._files.save_or_ask(self.open_file):
            return
        try:
            command = editor_command(
                self._host.learner.workspace.path_of(self._host.exercise),
                self._line(),
                environment=os.environ,
                setting=self._host.learner.settings.now.editor,
                which=shutil.which,
                columns=self._host.panes.app.size.width,
            )
        except NoEditor:
            self._ask()
            return
        except TutorError as error:
            self._host.show_error(error)
            return
        if command.place is EditorPlace.TERMINAL:
            self._run_in_terminal(command)
        else:
            self._host.status.show_message(OPENED[command.place].format(command.program))
            in_thread(self._run_outside, command)

    def installed(self) -> list[tuple[str, str]]:
        """Return the editors to choose from, with words on the place where each opens."""
        return installed_editors(shutil.which)

    def _ask(self) -> None:
        """Let the learner choose an editor; save the choice as a setting, and open the file in it."""
        from gpututor.app.screens.choices import EditorDialog

        def end(command: str | None) -> None:
            if not command:
                return
            try:
                self._host.learner.settings.choose("editor", command)
            except TutorError as error:
                self._host.show_error(error)
            else:
                self._host.call_later(self.open_file)

        installed = self.installed()
        self._host.push(EditorDialog(installed, installed[0][0] if installed else ""), end)

    def _line(self) -> int:
        row, failure = self._host.panes.screen.focused, self._host.panes.results.first_failure
        if isinstance(row, CheckRow) and row.verdict.line is not None:
            return row.verdict.line
        if self._host.panes.current is Pane.RESULTS and failure is not None and failure.verdict.line is not None:
            return failure.verdict.line
        return self._host.panes.editor.cursor_location[0] + 1

    def _run_in_terminal(self, command: EditorCommand) -> None:
        """Give the terminal to the editor, and take it back when it ends."""
        try:
            with self._host.panes.app.suspend():
                error = _run(command, _call_in_terminal)
        except SuspendNotSupported:
            problem = f"{command.program} needs the terminal, and the app cannot hand this one over."
            advice = "Choose an editor with a window of its own, such as `code`."
            self._host.show_error(UsageError(problem, advice))
            return
        self._host.panes.app.refresh(layout=True)
        self._host.status.show_message(f"Back from {command.program}.")
        if error is None:
            self._host.check_disk()
        else:
            self._host.show_error(error)

    def _run_outside(self, command: EditorCommand) -> None:
        error = _run(command, _call_without_terminal)
        if error is not None:
            self._host.call_later(self._host.show_error, error)


Runner = Callable[[tuple[str, ...]], subprocess.CompletedProcess[bytes]]


def _run(command: EditorCommand, run: Runner) -> TutorError | None:
    """Run the editor to its end; return an error if it failed."""
    program = os.path.basename(command.words[0])
    try:
        ended = run(command.words)
    except OSError as error:
        return UsageError(f"{program} cannot be started: {error.strerror or error}.", f"Check {command.origin}.")
    if ended.returncode == 0:
        return None
    message = (ended.stderr or b"").decode("utf-8", "replace").strip().rpartition("\n")[2]
    return UsageError(
        f"{program} ended with exit code {ended.returncode}{': ' if message else '.'}{message}",
        f"The command comes from {command.origin}:\n{' '.join(command.words)}\n\nYour file is as the editor left it.",
    )


def _call_without_terminal(words: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    null = subprocess.DEVNULL
    return subprocess.run(words, stdin=null, stdout=null, stderr=subprocess.PIPE, start_new_session=True, check=False)


def _call_in_terminal(words: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    """Run a program that has the terminal. A signal that ends the app is passed on to the program."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    # Ctrl-C, which is for the editor, gets a handler: the editor would inherit SIG_IGN.
    handlers = {signal.SIGINT: lambda number, frame: None, signal.SIGTERM: note, signal.SIGHUP: note}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        editor = subprocess.Popen(words)
        while not received and editor.poll() is None:
            with suppress(subprocess.TimeoutExpired):  # it still runs: look for a signal, and wait again
                editor.wait(LOOK_EVERY_S)
        if not received:
            return subprocess.CompletedProcess(words, editor.returncode)
        editor.send_signal(received[0])
        # An editor that does not end keeps the terminal and its text. The event loop gets the signal too, and ends the
        # app.
        with suppress(subprocess.TimeoutExpired):
            editor.wait(EDITOR_GRACE_S)
        return subprocess.CompletedProcess(words, 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class EditorPlace(Enum):
    """Places where an editor opens."""

    TERMINAL = auto()
    """This terminal, which the app gives away until the editor ends."""
    SPLIT = auto()
    """A pane of tmux or Zellij next to the app."""
    TMUX_WINDOW = auto()
    """A window of tmux, if there is no space next to the app."""
    FLOATING = auto()
    """A pane of Zellij over the app, if there is no space next to it."""
    OUTSIDE = auto()
    """A window of the desktop, or the editor that contains this terminal."""


@dataclass(frozen=True)
class EditorCommand:
    """A command that opens the file."""

    words: tuple[str, ...]
    place: EditorPlace
    program: str
    """The editor's name."""
    origin: str
    """Source of the choice: `$VISUAL`, `$EDITOR`, `the settings` or `VS Code's terminal`."""


OPENED = {
    EditorPlace.SPLIT: "{} is open next to the app. Save there, and the change appears here.",
    EditorPlace.TMUX_WINDOW: "{0} has a tmux window of its own: leave {0} to come back here.",
    EditorPlace.FLOATING: "{0} is open over the app: leave {0} to come back here.",
    EditorPlace.OUTSIDE: "Open in {}. Save there, and the change appears here.",
}
"""Reports for editors that leave the terminal to the app."""

THE_SETTINGS = "the settings"
SPLIT_COLUMNS = 100
"""Columns of a terminal that is split for the editor; a narrower one gets a tmux window, or a floating pane."""

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
"""Editors with an option to wait until the file is closed, which is dropped here."""
_IN_VS_CODE = ("code", "code-insiders", "codium", "cursor", "windsurf")

_OFFERED = (
    *("nvim", "vim", "hx", "micro", "nano", "emacs -nw", "kak", "vi"),
    *("code", "codium", "cursor", "zed", "subl", "kate", "gedit"),
)
"""Commands to choose from if no editor is chosen."""

Which = Callable[[str], str | None]


def installed_editors(which: Which) -> list[tuple[str, str]]:
    """Return (command, words on the place where it opens) of the usual editors that are installed."""
    words = {command: command.split() for command in _OFFERED}
    where = {EditorPlace.TERMINAL: "in this terminal", EditorPlace.OUTSIDE: "in its own window"}
    return [
        (command, where[_place(command_words)]) for command, command_words in words.items() if which(command_words[0])
    ]


def editor_command(
    file: Path, line: int, *, environment: Mapping[str, str], setting: str, which: Which, columns: int
) -> EditorCommand:
    """Return the command that opens `file` at `line`, counted from 1, on a terminal of `columns` columns.

    The editor is `setting`, the setting of gpututor, else `$VISUAL`, else `$EDITOR`. In the terminal of VS Code, VS
    Code replaces a `$VISUAL` or `$EDITOR` that would cover the app. `which` finds a program as `shutil.which` does.
    Raises `NoEditor` if none is chosen, and `UsageError` for a missing program.
    """
    words, origin = _chosen(environment, setting)
    keeps = origin == THE_SETTINGS or (words and _place(words) is EditorPlace.OUTSIDE)
    if environment.get("TERM_PROGRAM") == "vscode" and not keeps:
        own = next((name for name in _IN_VS_CODE if which(name)), None)
        if own is not None:
            words, origin = [own], "VS Code's terminal"
    if not words:
        raise NoEditor("No editor is chosen yet.", "Name an editor in the settings, or in $EDITOR.")
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
    if place is EditorPlace.TERMINAL and environment.get("TMUX") and (tmux := which("tmux")):
        place = EditorPlace.SPLIT if columns >= SPLIT_COLUMNS else EditorPlace.TMUX_WINDOW
        # Without a target, tmux takes the pane of $TMUX_PANE: the app's, wherever the learner looks at the moment.
        # tmux shows the window's name below the editor all the time.
        split, window = ("split-window", "-h"), ("new-window", "-a", "-n", f"leave {name} to return")
        command = (tmux, *(split if place is EditorPlace.SPLIT else window), "-c", str(file.parent), *command)
    elif place is EditorPlace.TERMINAL and environment.get("ZELLIJ") and (zellij := which("zellij")):
        place = EditorPlace.SPLIT if columns >= SPLIT_COLUMNS else EditorPlace.FLOATING
        where = ("--direction", "right") if place is EditorPlace.SPLIT else ("--floating",)
        command = (zellij, "run", *where, "--close-on-exit", "--cwd", str(file.parent), "--", *command)
    return EditorCommand(command, place, name, origin)


def _chosen(environment: Mapping[str, str], setting: str) -> tuple[list[str], str]:
    """Return the chosen editor's words, and their source. Raises `UsageError` for a quote without an end."""
    variables = [(f"${name}", environment.get(name, "")) for name in ("VISUAL", "EDITOR")]
    for origin, text in ((THE_SETTINGS, setting), *variables):
        try:
            words = shlex.split(text)
        except ValueError as error:
            problem = f"{origin[:1].upper()}{origin[1:]} names an editor that cannot be parsed: {text}"
            raise UsageError(
                problem, "A quote is not closed. Put quotes around a path that contains spaces."
            ) from error
        if words:
            return words, origin
    return [], ""


def _name(words: list[str]) -> str:
    return os.path.basename(words[0]).removesuffix(".exe")


def _place(words: list[str]) -> EditorPlace:
    """Return the place where the editor opens; the terminal for editors with and without a window."""
    name, options = _name(words), set(words[1:])
    match name:
        case "emacsclient":
            return EditorPlace.TERMINAL if options & {"-t", "-nw", "--tty"} else EditorPlace.OUTSIDE
        case "vi" | "vim" if options & {"-g", "--gui"}:
            return EditorPlace.OUTSIDE
        case _:
            return EditorPlace.OUTSIDE if name in _OUTSIDE else EditorPlace.TERMINAL


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
