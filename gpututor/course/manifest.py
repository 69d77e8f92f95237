"""Reading `exercise.toml`, `lesson.toml` and `course.toml`: which keys there are, and what is wrong with a file.

A mistake is a `CourseError` that says the file, the key as it would be written (`scenario[1].gpus`, counted from 0),
what was expected there, and the nearest key or word that would have been right.
"""

from __future__ import annotations

import keyword
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpututor import paths
from gpututor.course.exercise import BACKENDS, DEVICE_KINDS, Limits, Scenario
from gpututor.errors import CourseError
from gpututor.files import ordinary

REQUIRED: Any = object()
"""The default of a key that has none."""

LARGEST_MANIFEST_BYTES = 256 * 1024

_HEADING = re.compile(r'^\["?([^"\]]+)"?\]$', re.MULTILINE)


@dataclass(frozen=True)
class Key:
    """One key of a manifest: its name, what may stand there, and what it is when it is left out."""

    name: str
    type: str
    """`line`, `identifier`, `whole`, `number`, `choice`, `choices`, `table` or `tables`."""
    default: Any = REQUIRED
    least: float = 0
    most: float = 0
    """The range of a number, the most characters of a line, how many a list may hold."""
    choices: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    """For `table` and `tables`: what may stand inside."""

    @property
    def expected(self) -> str:
        """What may stand there, in words."""
        match self.type:
            case "line":
                return f"one line of text, 1 to {self.most} characters"
            case "identifier":
                return "the name of a Python function"
            case "whole":
                return f"a whole number from {self.least} to {self.most}"
            case "number":
                return f"a number from {self.least} to {self.most}"
            case "choice":
                return f"one of {', '.join(self.choices)}" if len(self.choices) > 1 else repr(self.choices[0])
            case "choices":
                return f"a list of {'one or more' if self.least else 'none or more'} of {', '.join(self.choices)}"
            case "table":
                return f"a table, written [{self.name}]"
            case _:
                return f"{self.least} to {self.most} tables, each written [[{self.name}]]"


_ANY_SCENARIO = Scenario("")

SCENARIO_KEYS = (
    Key("name", "line", most=40),
    Key("gpus", "whole", default=_ANY_SCENARIO.gpus, least=0, most=8),
    Key("backends", "choices", default=_ANY_SCENARIO.backends, choices=BACKENDS),
    Key("gpu", "line", default=_ANY_SCENARIO.gpu, most=40),
    Key("memory_mib", "whole", default=None, least=1, most=1024 * 1024),
)
LIMITS_KEYS = (
    Key("wall_s", "number", default=Limits().wall_s, least=0.1, most=600),
    Key("output_kib", "whole", default=Limits().output_kib, least=1, most=1024),
    Key("result_mib", "whole", default=Limits().result_mib, least=1, most=512),
)
EXCUSE_KEYS = (Key("change", "line", most=120), Key("reason", "line", most=300))
EXERCISE_KEYS = (
    Key("title", "line", most=60),
    Key("summary", "line", most=200),
    Key("minutes", "whole", least=1, most=240),
    Key("kind", "choice", choices=("function", "processes", "script")),
    Key("processes", "whole", default=None, least=2, most=8),
    Key("entry", "identifier", default=""),
    Key("cases", "whole", default=3, least=1, most=100),
    Key("devices", "choices", default=("virtual", "cuda"), least=1, choices=DEVICE_KINDS),
    Key("scenario", "tables", default=({"name": "one GPU"},), least=1, most=32, keys=SCENARIO_KEYS),
    Key("limits", "table", default={}, keys=LIMITS_KEYS),
    Key("excused_mutant", "tables", default=(), most=40, keys=EXCUSE_KEYS),
)
LESSON_KEYS = (
    Key("title", "line", most=60),
    Key("summary", "line", most=200),
    Key("gpus", "whole", default=1, least=0, most=8),
)
COURSE_KEYS = (Key("id", "line", most=60), Key("title", "line", most=60))


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong in a manifest."""

    key: str
    """As it would be written: `title`, `scenario[1].gpus`; empty for the file as a whole."""
    problem: str
    advice: str


@dataclass(frozen=True)
class Manifest:
    """What a manifest says, with the defaults filled in, and what is wrong with it."""

    values: dict[str, Any]
    """Only to be relied on when there are no mistakes; a key with a mistake is left out."""
    mistakes: tuple[CourseError, ...]


def read_manifest(path: Path, keys: Sequence[Key]) -> Manifest:
    """Read the file at `path`, of which `keys` are allowed. Never raises for what stands in it."""
    try:
        document = tomllib.loads(_text_of(path))
    except (OSError, ValueError, RecursionError) as error:
        return Manifest({}, (_unreadable(path, error),))
    mistakes: list[Mistake] = []
    values = _values_of(document, keys, "", mistakes)
    return Manifest(values, tuple(as_error(path, mistake) for mistake in mistakes))


def exercise_mistakes(values: dict[str, Any]) -> Iterator[Mistake]:
    """What is wrong between the keys of an `exercise.toml` whose keys are right one by one."""
    names = [scenario["name"] for scenario in values.get("scenario", ()) if "name" in scenario]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Mistake("scenario", f"two scenarios are called {name!r}", "Give each scenario a name of its own.")
    kind, entry = values.get("kind"), values.get("entry")
    if kind in ("function", "script") and values.get("processes"):
        problem = f"a {kind} runs in one process"
        yield Mistake("processes", problem, 'Write kind = "processes", or leave this key out.')
    if kind == "script" and entry:
        yield Mistake("entry", "a script is run as a whole", "Leave this key out.")
    if kind in ("function", "processes") and entry == "":
        yield Mistake("entry", "it is missing: the name of a Python function", 'Add a line `entry = "…"`.')
    for position, scenario in enumerate(values.get("scenario", ())):
        gpu = scenario.get("gpu", _ANY_SCENARIO.gpu)
        if gpu != _ANY_SCENARIO.gpu and (known := gpu_models()) and gpu not in known:
            yield Mistake(f"scenario[{position}].gpu", f"there is no GPU {gpu!r} in gpus.toml", nearest(gpu, known))
        if scenario.get("gpus") and scenario.get("backends") == ():
            problem = f"{scenario['gpus']} here, but no backend would show {'it' if scenario['gpus'] == 1 else 'them'}"
            yield Mistake(f"scenario[{position}].gpus", problem, 'Write gpus = 0, or backends = ["cuda"].')


@cache
def gpu_models() -> tuple[str, ...]:
    """The names of the virtual GPU's models: the headings of the spec file, which as a whole takes 3 ms to read."""
    try:
        text = (paths.PACKAGE / "devices" / "virtual" / "gpus.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ()
    return tuple(_HEADING.findall(text))


def as_error(path: Path | str, mistake: Mistake) -> CourseError:
    where = f"{path}: {mistake.key}: " if mistake.key else f"{path}: "
    return CourseError(where + mistake.problem, mistake.advice)


def nearest(word: str, known: Sequence[str]) -> str:
    """Advice that names the nearest of `known`, or all of them when none is near."""
    import difflib  # 3 ms: only a course with a mistake pays for it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else f"Known here: {', '.join(known)}."


def _text_of(path: Path) -> str:
    with open(path, "rb", opener=ordinary) as stream:
        content = stream.read(LARGEST_MANIFEST_BYTES + 1)
    if len(content) > LARGEST_MANIFEST_BYTES:
        raise ValueError(f"larger than {LARGEST_MANIFEST_BYTES // 1024} KiB")
    return content.decode("utf-8-sig")


def _unreadable(path: Path, error: Exception) -> CourseError:
    match error:
        case FileNotFoundError():
            return CourseError(f"{path}: the file is missing", "Write it; another one of its kind shows how.")
        case OSError():
            return CourseError(f"{path}: cannot be read ({error.strerror})", "Make it a file that you may read.")
        case UnicodeDecodeError():
            line = error.object.count(b"\n", 0, error.start) + 1
            return CourseError(f"{path}: not UTF-8 text (line {line})", "Save the file as UTF-8.")
        case RecursionError():
            return CourseError(f"{path}: nested too deeply", "Manifests are flat: a few keys and tables.")
        case _:
            return CourseError(f"{path}: not TOML: {error}", "Mend the line; text stands in double quotes.")


def _values_of(document: dict[str, Any], keys: Sequence[Key], prefix: str, mistakes: list[Mistake]) -> dict[str, Any]:
    known = [key.name for key in keys]
    for name in document:
        if name not in known:
            mistakes.append(Mistake(prefix + _as_written(name), "unknown key", nearest(name, known)))
    values: dict[str, Any] = {}
    for key in keys:
        if key.name in document:
            value, written = document[key.name], prefix + key.name
        elif key.default is REQUIRED:
            mistakes.append(Mistake(prefix + key.name, f"missing; expected {key.expected}", f"Add `{key.name} = …`."))
            continue
        else:
            value, written = key.default, prefix + key.name
        before = len(mistakes)
        read = _value_of(key, value, written, mistakes)
        if len(mistakes) == before:
            values[key.name] = read
    return values


def _value_of(key: Key, value: Any, written: str, mistakes: list[Mistake]) -> Any:
    """`value` as it is used, after its mistakes were added to `mistakes`."""
    if value is key.default and key.type not in ("table", "tables"):
        return value
    is_list = isinstance(value, list | tuple)
    match key.type:
        case "table" if isinstance(value, dict):
            return _values_of(value, key.keys, f"{written}.", mistakes)
        case "tables" if is_list and key.least <= len(value) <= key.most:
            tables = []
            for position, table in enumerate(value):
                if isinstance(table, dict):
                    tables.append(_values_of(table, key.keys, f"{written}[{position}].", mistakes))
                else:
                    mistakes.append(Mistake(f"{written}[{position}]", f"expected a table, got {_shown(table)}", ""))
            return tuple(tables)
        case "choices" if is_list and len(value) >= key.least:
            for position, word in enumerate(value):
                if word not in key.choices:
                    mistakes.append(_not_a_choice(f"{written}[{position}]", word, key.choices))
                elif word in value[:position]:
                    mistakes.append(Mistake(f"{written}[{position}]", f"{word!r} stands there twice", "Remove one."))
            return tuple(value)
        case "choice" if isinstance(value, str):
            if value not in key.choices:
                mistakes.append(_not_a_choice(written, value, key.choices))
            return value
    if not _is_right(key, value):
        mistakes.append(Mistake(written, f"expected {key.expected}, got {_shown(value)}", ""))
    return value


def _is_right(key: Key, value: Any) -> bool:
    match key.type:
        case "line":
            return isinstance(value, str) and 0 < len(value) <= key.most and value.isprintable() and value.strip() != ""
        case "identifier":
            return isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)
        case "whole":
            return isinstance(value, int) and not isinstance(value, bool) and key.least <= value <= key.most
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and key.least <= value <= key.most
        case _:
            return False


def _not_a_choice(written: str, word: Any, choices: tuple[str, ...]) -> Mistake:
    problem = f"expected one of {', '.join(choices)}, got {_shown(word)}"
    if len(choices) == 1:
        problem = f"expected {choices[0]!r}, got {_shown(word)}"
    return Mistake(written, problem, nearest(word, choices) if isinstance(word, str) else "")


def _as_written(name: str) -> str:
    """A key's name as TOML would have it, bounded and printable."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return _bounded(name if plain else repr(name))


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _bounded(repr(value))
        case int() if abs(value) >= 10**18:
            return "a number that is far too large"
        case int() | float():
            return str(value)
        case list() | tuple():
            return f"a list of {len(value)}"
        case dict():
            return "a table"
        case _:
            return "a date or a time"


def _bounded(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
