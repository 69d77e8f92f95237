"""What may stand in a TOML file of gpututor's, key by key, and what is wrong with one.

A mistake says the key as it would be written (`scenario[1].gpus`, counted from 0), what was expected there, and the
nearest key or word that would have been right.
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpututor.errors import CourseError
from gpututor.files import ordinary

REQUIRED: Any = object()
"""The default of a key that has none."""

LARGEST_MANIFEST_BYTES = 256 * 1024


@dataclass(frozen=True)
class Key:
    """One key of a manifest: its name, what may stand there, and what it is when it is left out."""

    name: str
    type: str
    """`line`, `lines`, `identifier`, `whole`, `number`, `moment`, `choice`, `choices`, `table` or `tables`."""
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
            case "lines":
                return f"a list of {'one or more' if self.least else 'none or more'} lines of text"
            case "identifier":
                return "the name of a Python function"
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
    """One thing that is wrong in a manifest."""

    key: str
    """As it would be written: `title`, `scenario[1].gpus`; empty for the file as a whole."""
    problem: str
    advice: str


def as_error(path: Path | str, mistake: Mistake) -> CourseError:
    where = f"{path}: {mistake.key}: " if mistake.key else f"{path}: "
    return CourseError(where + mistake.problem, mistake.advice)


_MOST_NAMED = 20


def nearest(word: str, known: Sequence[str]) -> str:
    """Advice that names the nearest of `known`, or all of them when none is near; the first of very many."""
    import difflib  # 3 ms: only a course with a mistake pays for it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if near:
        return f"Did you mean {near[0]!r}?"
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return f"Known here: {', '.join(known[:_MOST_NAMED])}{more}."


def text_of(path: Path) -> str:
    """The text of the file. Raises `OSError`, and `ValueError` for one that is too large or not UTF-8."""
    with open(path, "rb", opener=ordinary) as stream:
        content = stream.read(LARGEST_MANIFEST_BYTES + 1)
    if len(content) > LARGEST_MANIFEST_BYTES:
        raise ValueError(f"larger than {LARGEST_MANIFEST_BYTES // 1024} KiB")
    return content.decode("utf-8-sig")


def unreadable(path: Path, error: Exception) -> CourseError:
    """In words, what `text_of` or `tomllib.loads` raised."""
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


def values_of(
    document: dict[str, Any], keys: Sequence[Key], mistakes: list[Mistake], below: str = ""
) -> dict[str, Any]:
    """What `document` says, with the defaults filled in; a key with a mistake is left out, and told in `mistakes`.

    `below` is what stands before each key as it would be written: `scenario[1].`.
    """
    known = [key.name for key in keys]
    for name in document:
        if name not in known:
            mistakes.append(Mistake(below + _as_written(name), "unknown key", nearest(name, known)))
    values: dict[str, Any] = {}
    for key in keys:
        written = below + _as_written(key.name)
        if key.name not in document and key.default is REQUIRED:
            mistakes.append(Mistake(written, f"missing; expected {key.expected}", f"Add `{key.name} = …`."))
            continue
        value = document.get(key.name, key.default)
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
            return values_of(value, key.keys, mistakes, f"{written}.")
        case "tables" if is_list and key.least <= len(value) <= key.most:
            tables = []
            for position, table in enumerate(value):
                if isinstance(table, dict):
                    tables.append(values_of(table, key.keys, mistakes, f"{written}[{position}]."))
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
        case "lines" if is_list and len(value) >= key.least:
            for position, line in enumerate(value):
                one = Key(key.name, "line", most=int(key.most))
                if not _is_right(one, line):
                    problem = f"expected {one.expected}, got {_shown(line)}"
                    mistakes.append(Mistake(f"{written}[{position}]", problem, ""))
                elif line in value[:position]:
                    mistakes.append(Mistake(f"{written}[{position}]", f"{line!r} stands there twice", "Remove one."))
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
        case "moment":
            return isinstance(value, datetime)
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
