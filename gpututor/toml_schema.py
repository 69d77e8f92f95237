"""Schemas of TOML files, key by key; a mistake names its key, the expected value and the nearest valid word."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from functools import cached_property
from pathlib import Path
from typing import Any

from gpututor.errors import CourseError
from gpututor.files import read_beginning
from gpututor.text import truncate

REQUIRED: Any = object()
"""The default of a required key."""

LARGEST_MANIFEST_BYTES = 256 * 1024


@dataclass(frozen=True)
class Key:
    """A key of a manifest: its name, its type and its default."""

    name: str
    type: str
    """`line`, `lines`, `identifier`, `flag`, `whole`, `number`, `moment`, `choice`, `choices`, `table` or `tables`."""
    default: Any = REQUIRED
    least: float = 0
    most: float = 0
    """The range of a number, of a line's characters or of a list's length."""
    choices: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    """Keys of a `table` or of `tables`."""

    @cached_property
    def item(self) -> Key:
        """The type of an item of `lines` or `choices`."""
        return replace(self, type=self.type.removesuffix("s"), default=REQUIRED)

    @property
    def expected(self) -> str:
        """Text on valid values."""
        match self.type:
            case "line":
                return f"one line of text, 1 to {self.most} characters"
            case "lines":
                return f"a list of {'one or more' if self.least else 'none or more'} lines of text"
            case "identifier":
                return "the name of a Python function"
            case "flag":
                return "true or false"
            case "moment":
                return "a date and a time without quotes, as 2026-03-01T23:59:00+01:00"
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


@dataclass(frozen=True)
class Mistake:
    """A mistake in a manifest."""

    key: str
    """The key as in the file: `title`, `scenario[1].gpus`; empty for the whole file."""
    problem: str
    advice: str


def as_error(path: Path | str, mistake: Mistake) -> CourseError:
    where = f"{path}: {mistake.key}: " if mistake.key else f"{path}: "
    return CourseError(where + mistake.problem, mistake.advice)


_MOST_NAMED = 20
_SHOWN = 60
"""Characters of a key or a value."""


def nearest(word: str, known: Sequence[str]) -> str:
    """Return advice that names the nearest of `known`, or the first `_MOST_NAMED` of them if none is near."""
    from gpututor.fuzzy import did_you_mean  # only a course with a mistake pays for it

    if question := did_you_mean(word, known).strip():
        return question
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return f"Valid names: {', '.join(known[:_MOST_NAMED])}{more}."


def text_of(path: Path) -> str:
    """Return the text of the file. Raises `OSError`, and `ValueError` for a file that is too large or not UTF-8."""
    content = read_beginning(path, LARGEST_MANIFEST_BYTES + 1)
    if len(content) > LARGEST_MANIFEST_BYTES:
        raise ValueError(f"larger than {LARGEST_MANIFEST_BYTES // 1024} KiB")
    return content.decode("utf-8-sig")


def unreadable(path: Path, error: Exception) -> CourseError:
    """Return the `CourseError` for an error of `text_of` or `tomllib.loads`."""
    match error:
        case FileNotFoundError():
            return CourseError(f"{path}: the file is missing", "Write it; other files of its kind show how.")
        case OSError():
            return CourseError(f"{path}: cannot be read ({error.strerror})", "Make the file readable.")
        case UnicodeDecodeError():
            line = error.object.count(b"\n", 0, error.start) + 1
            return CourseError(f"{path}: not UTF-8 text (line {line})", "Save the file as UTF-8.")
        case RecursionError():
            return CourseError(f"{path}: nested too deeply", "Manifests are flat: a few keys and tables.")
        case _:
            return CourseError(f"{path}: not TOML: {error}", "Fix the line; put text in double quotes.")


def values_of(
    document: dict[str, Any], keys: Sequence[Key], mistakes: list[Mistake], below: str = ""
) -> dict[str, Any]:
    """Return the valid keys' values, with defaults; add to `mistakes`. `below` is the keys' prefix: `scenario[1].`."""
    known = [key.name for key in keys]
    for name in document:
        if name not in known:
            mistakes.append(Mistake(below + _as_written(name), "unknown key", nearest(name, known)))
    values: dict[str, Any] = {}
    for key in keys:
        value = document.get(key.name, key.default)
        if value is key.default and value is not REQUIRED and key.type not in ("table", "tables"):
            values[key.name] = value
            continue
        written = below + _as_written(key.name)
        if value is REQUIRED:
            mistakes.append(Mistake(written, f"missing; expected {key.expected}", f"Add `{key.name} = …`."))
            continue
        before = len(mistakes)
        read = _value_of(key, value, written, mistakes)
        if len(mistakes) == before:
            values[key.name] = read
    return values


def _value_of(key: Key, value: Any, written: str, mistakes: list[Mistake]) -> Any:
    """Return the converted value; add its mistakes to `mistakes`."""
    is_list = isinstance(value, list | tuple)
    match key.type:
        case "table" if isinstance(value, dict):
            return values_of(value, key.keys, mistakes, f"{written}.")
        case "tables" if is_list and key.least <= len(value) <= key.most:
            tables = []
            for position, table in enumerate(value):
                if isinstance(table, dict):
                    tables.append(values_of(table, key.keys, mistakes, f"{written}[{position}]."))
                else:
                    mistakes.append(Mistake(f"{written}[{position}]", f"expected a table, got {_shown(table)}", ""))
            return tuple(tables)
        case "choices" | "lines" if is_list and len(value) >= key.least:
            for position, word in enumerate(value):
                place, before = f"{written}[{position}]", len(mistakes)
                _value_of(key.item, word, place, mistakes)
                if len(mistakes) == before and word in value[:position]:
                    mistakes.append(Mistake(place, f"{word!r} is listed twice", "Remove one."))
            return tuple(value)
    if not _is_valid(key, value):
        advice = nearest(value, key.choices) if key.type == "choice" and isinstance(value, str) else ""
        mistakes.append(Mistake(written, f"expected {key.expected}, got {_shown(value)}", advice))
    return value


def _is_valid(key: Key, value: Any) -> bool:
    match key.type:
        case "line":
            return isinstance(value, str) and 0 < len(value) <= key.most and value.isprintable() and value.strip() != ""
        case "identifier":
            return isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)
        case "whole" | "number":
            types = int if key.type == "whole" else int | float
            return isinstance(value, types) and not isinstance(value, bool) and key.least <= value <= key.most
        case "flag":
            return isinstance(value, bool)
        case "moment":
            return isinstance(value, datetime)
        case _:
            return key.type == "choice" and value in key.choices


def _as_written(name: str) -> str:
    """Return a key's name as in TOML, bounded and printable."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return truncate(name if plain else repr(name), _SHOWN)


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return truncate(repr(value), _SHOWN)
        case int() if abs(value) >= 10**18:
            return "a number that is far too large"
        case int() | float():
            return str(value)
        case list() | tuple():
            return f"a list of {len(value)}"
        case dict():
            return "a table"
        case date() if not isinstance(value, datetime):
            return f"{value}, a date without a time"
        case time():
            return f"{value}, a time without a date"
        case _:
            return "a date and a time"
