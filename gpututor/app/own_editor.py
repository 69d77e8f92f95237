"""Which command opens the learner's file in the learner's own editor, at a line. Starts nothing, knows no Textual."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from gpututor.errors import UsageError


class Place(Enum):
    """Where an editor shows itself, and so what becomes of the app meanwhile."""

    TERMINAL = auto()
    """Here: the app steps aside until the editor ends."""
    SPLIT = auto()
    """In a pane of tmux beside the app."""
    TMUX_WINDOW = auto()
    """In a window of tmux, where there is no room beside the app."""
    OUTSIDE = auto()
    """In a window of the desktop, or in the editor that this terminal is a part of."""


@dataclass(frozen=True)
class EditorCommand:
    """What to run."""

    words: tuple[str, ...]
    place: Place
    program: str
    """The editor's name, for people."""
    origin: str
    """What chose it: `$VISUAL`, `$EDITOR`, `the settings` or `VS Code's terminal`."""


OPENED = {
    Place.SPLIT: "{} is beside this. What you save there is seen here.",
    Place.TMUX_WINDOW: "{0} has a tmux window of its own: leave {0} to come back here.",
    Place.OUTSIDE: "Your file is open in {}. What you save there is seen here.",
}
"""What there is to say when an editor that leaves the terminal to the app was opened."""

THE_SETTINGS = "the settings"
ROOM_BESIDE = 100
"""So many columns must there be for an editor beside the app; with fewer it gets a tmux window of its own."""

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
"""These wait for the file to be closed where they are told to; nobody waits for them here."""
_IN_VS_CODE = ("code", "code-insiders", "codium", "cursor", "windsurf")

Which = Callable[[str], str | None]


def editor_command(
    file: Path, line: int, *, environment: Mapping[str, str], setting: str, which: Which, columns: int
) -> EditorCommand:
    """The command that opens `file` at `line`, counted from 1, on a terminal of so many columns.

    `setting`, what gpututor's own settings say ("" for nothing), comes before `$VISUAL`, and that before `$EDITOR`. In
    the terminal of VS Code, VS Code itself stands in for a `$VISUAL` or `$EDITOR` that would cover the app. `which`
    finds a program as `shutil.which` does. Raises `UsageError`, which says what to do, for no editor and a missing one.
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
    """The words of the editor that counts, and what names it. Raises `UsageError` for a quote without an end."""
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
    """Where the editor opens by itself. One that may have a window or not is given the terminal, where both work."""
    name, options = _name(words), set(words[1:])
    match name:
        case "emacsclient":
            return Place.TERMINAL if options & {"-t", "-nw", "--tty"} else Place.OUTSIDE
        case "vi" | "vim" if options & {"-g", "--gui"}:
            return Place.OUTSIDE
        case _:
            return Place.OUTSIDE if name in _OUTSIDE else Place.TERMINAL


def _at_line(name: str, file: Path, line: int) -> tuple[str, ...]:
    """The words that name the file, and the line where the editor is known to take one."""
    if name in _GOTO:
        return ("--goto", f"{file}:{line}")
    if name in _COLON:
        return (f"{file}:{line}",)
    if name in _LINE_OPTION:
        return ("--line", str(line), str(file))
    if name in _PLUS_LINE:
        return (f"+{line}", str(file))
    return (str(file),)
