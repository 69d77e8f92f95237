"""Other keys for the main screen's commands, as the table `keys` of the settings names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gpututor.app.command import Command
from gpututor.app.commands import COMMANDS, WIDGETS, Pane, key_name
from gpututor.settings import Keys

OUTSIDE = {"slash", "comma", "semicolon", "question_mark", "space", "tab", "shift+tab", "backspace"}
"""Names of keys that work only outside the editor, as single characters do."""
FIXED = {"escape", "enter"}
"""Keys that no command gets or loses."""
TAKEN = {
    "ctrl+c": "copies the selected text",
    "ctrl+p": "opens the palette",
    "ctrl+q": "leaves the app",
    **{f"ctrl+{letter}": "is the same as Backspace, Tab or Enter in a terminal" for letter in "hijm"},
    **{f"alt+{letter}": "is a key of Find" for letter in "rwl"},
}
"""Keys that cannot be rebound, and the reasons."""
_EVERYWHERE = re.compile(
    r"ctrl\+([a-z]|underscore|backslash)|alt\+[a-z0-9]|alt\+(shift\+)?(up|down|left|right)|(shift\+)?f([1-9]|1[0-2])"
)
_SPELT = {" ": "space", "/": "slash", ",": "comma", ";": "semicolon", "?": "question_mark", "ctrl+/": "ctrl+underscore"}
_IN_PANES = {
    key: pane
    for pane, table in ((Pane.COURSE, "course"), (Pane.TASK, "reader"), (Pane.RESULTS, "results"))
    for command in WIDGETS[table]
    for key in command.letters
}
"""Keys that a pane handles before the commands."""
_OF_COMMANDS = {key for command in COMMANDS for key in command.keys}
"""Keys that commands have by default; some are bound in the editor, too, which never gets them."""


def setting_name(command: Command) -> str:
    """Return the command's name in the settings: its title, as `go_to_line` for Go to line."""
    return command.title.lower().replace(" ", "_")


BY_NAME = {setting_name(command): command for command in COMMANDS}


def with_keys(commands: Sequence[Command], overrides: Keys) -> tuple[Command, ...]:
    """Return the commands with the keys of `overrides`, which are valid.

    Characters replace the keys outside the editor; all other keys replace those that work everywhere.
    """
    chosen = dict(overrides)
    return tuple(_with_keys(command, chosen.get(setting_name(command), ())) for command in commands)


def _with_keys(command: Command, keys: Sequence[str]) -> Command:
    keys = [_SPELT.get(key, key) for key in keys]
    letters = [key for key in keys if _is_outside(key)]
    everywhere = [key for key in keys if not _is_outside(key)]
    if letters:
        command = replace(command, bound=tuple((key, f"run_command('{command.id}')") for key in letters))
    if everywhere:
        kept = (key for key in command.keys if key in FIXED)
        command = replace(command, keys=(*kept, *everywhere))
    return command


def key_faults(overrides: Keys) -> dict[str, str]:
    """Return the mistakes by the names of the commands. Without these overrides, the others are valid."""
    faults = {name: fault for name, keys in overrides if (fault := _fault(name, keys))}
    while shared := _shared([(name, keys) for name, keys in overrides if name not in faults]):
        faults.update(shared)
    return faults


def _fault(name: str, keys: Sequence[str]) -> str:
    if name not in BY_NAME:
        from gpututor.fuzzy import did_you_mean  # only if a name is wrong

        advice = did_you_mean(name.lower(), BY_NAME) or f"There are {', '.join(BY_NAME)}. "
        return f"there is no command {name!r}. {advice.strip()}"
    own = (*BY_NAME[name].keys, *BY_NAME[name].letters)
    for key in (_SPELT.get(key, key) for key in keys):
        if key in FIXED:
            return f"{key_name(key)} has a fixed meaning; choose another key."
        if key in own:
            continue
        if not (_is_outside(key) or _EVERYWHERE.fullmatch(key)):
            return f'"{key}" is not a valid key; use keys such as "r", "/", "f5", "shift+f5", "ctrl+b" or "alt+e".'
        if key in TAKEN:
            return f"{key_name(key)} {TAKEN[key]}; choose another key."
        if use := _use_in_editor(key):
            return f"{key_name(key)} is the editor's own key for “{use}”; choose another key."
        if key in _IN_PANES:
            return f"{key_name(key)} already has a meaning in the pane {_IN_PANES[key].heading}; choose another key."
    return ""


def _use_in_editor(key: str) -> str:
    """Describe the use of a key in the editor, which no command may take away; empty if there is none."""
    if key in _OF_COMMANDS:
        return ""
    from gpututor.app.editor.editor import EDITOR_KEYS  # only if a command gets a new key

    return EDITOR_KEYS[key].description if key in EDITOR_KEYS else ""


def _shared(overrides: Keys | list[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    """Return the first override, if any, that gives a command a key of another command."""
    users: dict[str, Command] = {}
    chosen = [name for name, _ in overrides]
    # First the commands with their default keys, then the others in the order of the file.
    commands = {setting_name(command): command for command in with_keys(COMMANDS, tuple(overrides))}
    for name in sorted(commands, key=lambda name: chosen.index(name) if name in chosen else -1):
        command = commands[name]
        for key in (*command.letters, *command.keys):
            other = users.setdefault(key_name(key), command)
            if other is not command:
                return {name: f"{key_name(key)} is a key of {setting_name(other)} too; give one of them another key."}
    return {}


def _is_outside(key: str) -> bool:
    return key in OUTSIDE or (len(key) == 1 and key.isprintable())
