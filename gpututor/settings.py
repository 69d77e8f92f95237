"""The learner's settings, in `settings.toml`: a change in the app rewrites only its line; order and comments stay."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from gpututor import paths
from gpututor.errors import TutorError
from gpututor.files import Stamp, create_atomically, ordinary, stamp_of, write_atomically
from gpututor.hardware.scenario import ACCELERATORS

THEMES = ("night", "day", "terminal", "contrast")
"""The app's own themes; Textual's themes, such as `nord`, are also valid."""
RUNS = ("asked", "other editor", "saved")
MOTIONS = ("full", "none")
DEVICES = ("auto", "virtual", "cpu", *ACCELERATORS)
OWN_GPU = "exercise"
"""Value of `gpu` for the exercise's own GPU model."""

Value = str | bool
Keys = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of commands with their keys, in the order of the file."""
KEYS = "keys"
"""Name of the table of keys in the file."""


@dataclass(frozen=True)
class Settings:
    """Values of all settings."""

    theme: str = "night"
    editor: str = ""
    """A command; empty: `$VISUAL`, else `$EDITOR`."""
    auto_run: str = "asked"
    motion: str = "full"
    device: str = "auto"
    """The device of a `GradeRequest`."""
    gpu: str = OWN_GPU
    """A model of the virtual GPU, or `OWN_GPU`."""
    costs: bool = True
    """True if the editor shows the cost of each line."""
    soft_wrap: bool = False
    """True if long lines wrap in the editor."""
    vim: bool = False
    """True for Vim's keys in the editor."""
    streak: bool = False
    """True if the progress screen shows the days of practice in a row."""
    keys: Keys = ()
    """Keys that replace the default keys of commands: the table `keys`."""

    @property
    def requested_gpu(self) -> str | None:
        """The model for a `GradeRequest`; None for the exercise's own model."""
        return None if self.gpu == OWN_GPU else self.gpu


@dataclass(frozen=True)
class Setting:
    """Declaration of one setting, for reading the file, its comment in the file and its row on the screen."""

    key: str
    """The key in the file, and the field's name in `Settings`."""
    title: str
    help: str
    choices: tuple[Value, ...] = ()
    """Valid values; empty for free text or too many values."""
    fault: Callable[[str], str] | None = None
    """Returns the mistake in a text that is none of the choices; empty if it is valid."""

    @property
    def default(self) -> Value:
        value: Value = getattr(Settings(), self.key)
        return value


def _theme_fault(name: str, themes: Collection[str] = ()) -> str:
    is_valid = name in themes if themes else re.fullmatch(r"[a-z0-9-]+", name)
    return "" if is_valid else f"a theme is {_listed(THEMES)}, or another theme of Textual, such as nord"


def _editor_fault(command: str) -> str:
    return "" if command.isprintable() else "a command must be one line"


def _device_fault(name: str) -> str:
    return "" if re.fullmatch(r"cuda:\d{1,3}", name) else f'a device is {_listed(DEVICES)} or "cuda:N"'


def _gpu_fault(name: str) -> str:
    from gpututor.hardware.gpus import gpu_names  # reads a file: only if a model was chosen

    if name in gpu_names():
        return ""
    return f"a virtual GPU is {OWN_GPU} (each exercise has its own) or one of {', '.join(gpu_names())}"


SETTINGS = (
    Setting("theme", "Theme", "The colors; terminal: your terminal's own sixteen.", THEMES, _theme_fault),
    Setting("editor", "Own editor", "Opens your file; empty: $VISUAL, else $EDITOR.", (), _editor_fault),
    Setting("auto_run", "Run checks", "When the checks run on their own.", RUNS),
    Setting("motion", "Motion", "None: no animation, no blinking cursor.", MOTIONS),
    Setting("device", "Device", "Where to run; auto: a suitable real GPU, if any.", DEVICES, _device_fault),
    Setting("gpu", "Virtual GPU", "The GPU to model; each exercise has its own.", (), _gpu_fault),
    Setting("costs", "Costs", "Show the cost of each line next to your code.", (True, False)),
    Setting("soft_wrap", "Wrap lines", "Wrap long lines in the app's editor.", (False, True)),
    Setting("vim", "Vim keys", "Vim's keys in the editor; Esc in NORMAL leaves it.", (True, False)),
    Setting("streak", "Streak", "Show the days of practice in a row, in Progress.", (True, False)),
)
BY_KEY = {setting.key: setting for setting in SETTINGS}


@dataclass(frozen=True)
class SettingsReading:
    """Contents of the file."""

    settings: Settings
    faults: tuple[str, ...] = ()
    """Lines on invalid settings: file, line, mistake, and the value used instead."""


class SettingsFile:
    """Settings in the file at `path`, which other programs may change at any time."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or paths.settings_file()
        self.now = Settings()
        self.faults: tuple[str, ...] = ()
        self._themes: frozenset[str] = frozenset()
        self._key_faults: Callable[[Keys], dict[str, str]] = _no_key_faults
        self._stamp: Stamp | None = None
        self.reload()

    def accept_themes(self, names: Iterable[str]) -> None:
        """Accept only these themes from now on."""
        self._themes, self._stamp = frozenset(names), None
        self.reload()

    def accept_keys(self, key_faults: Callable[[Keys], dict[str, str]]) -> None:
        """Accept only valid keys from now on. `key_faults` returns the mistakes by the names of the commands."""
        self._key_faults = key_faults
        if self.now.keys:
            self._stamp = None
            self.reload()

    def reload(self) -> bool:
        """Read the file if it has changed; return True if the settings or their faults changed. Costs one `stat`."""
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return False
        before, self._stamp = SettingsReading(self.now, self.faults), stamp
        reading = read_settings(self.path, self._themes, self._key_faults)
        self.now, self.faults = reading.settings, reading.faults
        return reading != before

    def choose(self, key: str, value: Value) -> None:
        """Change one setting, here and in the file.

        Raises `TutorError` if the file cannot be written or read: then the change lasts until the end of this process.
        """
        self.reload()
        if fault := fault_of(BY_KEY[key], value):
            advice = f"Choose another value. Until then, {key} is {_toml_text(getattr(self.now, key))}."
            raise TutorError(f"{key} cannot be {_toml_text(value)}: {fault}.", advice)
        self.now = replace(self.now, **{key: value})  # type: ignore[arg-type]  # of the field's own type, as tested above
        try:
            self.create()
            text = _with_choice(_read(self.path), key, value)
            write_atomically(self.path, text)
        except (OSError, ValueError) as error:
            advice = f"Fix {self.path}, or move it away. Until then, your choice lasts only while the app runs."
            raise TutorError(f"The choice could not be written: {_reason(error)}", advice) from error
        self._stamp = stamp_of(self.path)
        self.faults = read_settings(self.path, self._themes, self._key_faults).faults

    def create(self) -> None:
        """Create a missing file with all defaults and their explanation. Raises `OSError`."""
        if not self.path.exists():
            create_atomically(self.path, settings_text(self.now))
            self._stamp = stamp_of(self.path)


def _no_key_faults(keys: Keys) -> dict[str, str]:
    """Accept all keys: only the app knows its commands."""
    return {}


def read_settings(
    path: Path, themes: Collection[str] = (), key_faults: Callable[[Keys], dict[str, str]] = _no_key_faults
) -> SettingsReading:
    """Return the contents of the file, or the defaults. Never raises.

    `themes` are the valid themes, if known. `key_faults`: see `SettingsFile.accept_keys`.
    """
    import tomllib

    try:
        text = _read(path)
        entries = tomllib.loads(text)
    except FileNotFoundError:
        return SettingsReading(Settings())
    except (OSError, ValueError) as error:
        return SettingsReading(
            Settings(), (f"{path}: {_reason(error)}. All settings have their defaults until it is fixed.",)
        )
    taken: dict[str, Any] = {}
    faults: list[str] = []
    if KEYS in entries:
        taken[KEYS], key_lines = _read_keys(text, entries.pop(KEYS), key_faults)
        faults += [f"{path}, line {line}: {fault}" for line, fault in key_lines]
    for key, value in entries.items():
        setting = BY_KEY.get(key)
        where = f"{path}, line {_line_of(text, key)}"
        if setting is None:
            faults.append(f"{where}: there is no setting {key!r}{_nearest(key)} Remove the line.")
        elif fault := fault_of(setting, value) or (_theme_fault(value, themes) if key == "theme" else ""):
            now = f"The default is used: {_toml_text(setting.default)}."
            faults.append(f"{where}: {key} cannot be {_toml_text(value)}: {fault}. {now}")
        else:
            taken[key] = value
    return SettingsReading(Settings(**taken), tuple(faults))


def _read_keys(
    text: str, table: object, key_faults: Callable[[Keys], dict[str, str]]
) -> tuple[Keys, list[tuple[int, str]]]:
    """Return the valid entries of the table of keys, and a line and a mistake for each of the others."""
    start = _line_of(text, KEYS)
    if not isinstance(table, dict):
        return (), [(start, f'{KEYS} must be a table: a line [{KEYS}], then lines such as run = "alt+e".')]
    faults: dict[str, str] = {}
    entries: list[tuple[str, tuple[str, ...]]] = []
    for name, value in table.items():
        keys = [value] if isinstance(value, str) else value
        if isinstance(keys, list) and keys and all(isinstance(key, str) for key in keys):
            entries.append((name, tuple(keys)))
        else:
            faults[name] = 'it must be a key such as "alt+e", or a list of keys such as ["h", "f7"].'
    faults |= key_faults(tuple(entries))
    lines = [
        (_line_of(text, name, start), f"{KEYS}: {name} = {_toml_text(table[name])}: {fault}")
        for name, fault in faults.items()
    ]
    return tuple(entry for entry in entries if entry[0] not in faults), lines


def fault_of(setting: Setting, value: object) -> str:
    """Return the mistake in `value`; empty if it is valid."""
    if type(value) is not type(setting.default):
        return "it must be " + (_listed(setting.choices) if setting.choices else "a text in quotes")
    if value in setting.choices or value == setting.default:
        return ""
    if setting.fault is None or not isinstance(value, str):
        return f"it must be {_listed(setting.choices)}"
    return setting.fault(value)


def settings_text(settings: Settings) -> str:
    """Return the text of a new file: every setting with its explanation."""
    lines = ["# Your choices in gpututor. Edit them as you like: the app applies a change at once.", ""]
    for setting in SETTINGS:
        lines.append(f"# {setting.help}")
        # A setting with other valid values than the choices says so itself.
        if values := (setting.fault("") if setting.fault else f"it must be {_listed(setting.choices)}"):
            lines.append(f"# {values[0].upper()}{values[1:]}.")
        lines += [f"{setting.key} = {_toml_text(getattr(settings, setting.key))}", ""]
    lines += [
        "# Other keys for commands, by their titles in the palette, such as go_to_line.",
        "# Letters work outside the editor, other keys everywhere.",
        f"# [{KEYS}]",
        '# run = ["r", "alt+e"]',
        "",
    ]
    return "\n".join(lines)


def prepare_to_write() -> None:
    """Import in a thread what a change needs: 45 ms that would delay the first change."""
    threading.Thread(target=import_module, args=("tomlkit",), daemon=True).start()


def _with_choice(text: str, key: str, value: Value) -> str:
    """Return the file's text with another value of one key, and no other change. Raises `ValueError`."""
    import tomlkit  # 45 ms, unless `prepare_to_write` has run

    document = tomlkit.parse(text)
    if key in document:
        document[key] = value
        return document.as_string()
    # Before the first table: after it, the key would belong to the table.
    table = re.search(r"^\s*\[", text, re.MULTILINE)
    ahead, rest = (text, "") if table is None else (text[: table.start()], text[table.start() :])
    newline = "" if not ahead or ahead.endswith("\n") else "\n"
    return f"{ahead}{newline}{key} = {_toml_text(value)}\n{rest}"


def _read(path: Path) -> str:
    with open(path, encoding="utf-8", newline="", opener=ordinary) as stream:
        return stream.read()


def _line_of(text: str, key: str, start: int = 1) -> int:
    """Return the number of the line of a key, at `start` or below; `start` if there is none."""
    pattern = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    lines = enumerate(text.splitlines()[start - 1 :], start)
    return next((number for number, line in lines if pattern.match(line)), start)


def _nearest(key: str) -> str:
    from gpututor.fuzzy import likely_meant

    near = likely_meant(key, BY_KEY, lambda name: (name,))
    return f"; did you mean {near[0]!r}?" if near else f"; the settings are {', '.join(BY_KEY)}."


def _listed(choices: tuple[Value, ...]) -> str:
    words = [_toml_text(choice) for choice in choices]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _toml_text(value: object) -> str:
    """Return a value as in the file."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return str(error.strerror or error) if isinstance(error, OSError) else str(error).rstrip(".")
