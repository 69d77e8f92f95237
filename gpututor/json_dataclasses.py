"""Converting dataclasses to JSON data, and back with errors that name the place: `verdicts[2].line must be …`."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


_UNCHANGED = frozenset({str, int, float, bool, type(None)})


def to_json(value: Any) -> Any:
    """Return `value` with all dataclasses in it as dicts, and tuples as lists; unlike `asdict`, copy nothing else."""
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    if kind is tuple or kind is list:
        return [to_json(item) for item in value]
    if kind is dict:
        return {key: to_json(item) for key, item in value.items()}
    if is_dataclass(kind):
        return {name: to_json(getattr(value, name)) for name in _field_names(kind)}
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def read(kind: type[T], data: object, place: str) -> T:
    """Return a `kind` from the result of `to_json`, with lists or tuples.

    All keys must be there and no others. Computed fields must be equal to those in `data`. Raises `ValueError` with the
    place below `place`, which is empty for the whole.
    """
    try:
        return cast("T", _reader(cast("Hashable", kind))(data))
    except _Invalid as error:
        raise ValueError(error.message(_joined(place, error.place))) from error.__cause__


@lru_cache
def hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, by name."""
    types_by_name = get_type_hints(kind)
    return {field.name: types_by_name[field.name] for field in fields(kind)}


class _Invalid(Exception):
    """An invalid value. Each reader that it passes on the way up completes `place`."""

    def __init__(self, message: Callable[[str], str]) -> None:
        super().__init__()
        self.message = message
        self.place = ""


def _joined(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner and not inner.startswith("[") else outer + inner


_Reader = Callable[[object], Any]


@cache
def _reader(wanted: Any) -> _Reader:
    """Return the reader of a type, cached because a class has thousands of reports."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        return _choice_reader({name: name for name in arguments})
    if origin in (Union, types.UnionType):  # only `X | None`
        inner = _reader(arguments[0])
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        return _tuple_reader(_reader(arguments[0]))
    if is_dataclass(wanted):
        return _dataclass_reader(cast("type", wanted))
    if issubclass(wanted, StrEnum):
        return _choice_reader({member.value: member for member in wanted})
    return _number if wanted is float else _plain_reader(wanted)


def _dataclass_reader(kind: type) -> _Reader:
    readers = {name: _reader(wanted) for name, wanted in hints(kind).items()}
    given = [field.name for field in fields(kind) if field.init]
    computed = [field.name for field in fields(kind) if not field.init]

    def read(data: object) -> Any:
        if not isinstance(data, dict):
            raise _Invalid(lambda place: f"{place or 'the whole'} must be an object, not {_json_name(data)}")
        if data.keys() != readers.keys():
            raise _wrong_keys(kind, data, list(readers))
        values = {}
        for name, reader in readers.items():
            try:
                values[name] = reader(data[name])
            except _Invalid as error:
                error.place = _joined(name, error.place)
                raise
        try:
            built = kind(**{name: values[name] for name in given})
        except ValueError as error:
            text = str(error)
            raise _Invalid(lambda place: f"{place}: {text}" if place else text) from error
        wrong = [name for name in computed if values[name] != getattr(built, name)]
        if wrong:
            text = f"{wrong[0]} is {values[wrong[0]]!r}, but the other values make it {getattr(built, wrong[0])!r}"
            raise _Invalid(lambda place: _joined(place, text))
        return built

    return read


def _wrong_keys(kind: type, data: dict[Any, Any], wanted: list[str]) -> _Invalid:
    unknown = [str(key) for key in data if key not in wanted]
    if unknown:
        return _Invalid(lambda place: f"{_joined(place, unknown[0][:40])} is not a key of a {kind.__name__}")
    missing = next(name for name in wanted if name not in data)
    return _Invalid(lambda place: f"{_joined(place, missing)} is missing")


def _tuple_reader(inner: _Reader) -> _Reader:
    def read(value: object) -> Any:
        if not isinstance(value, list | tuple):
            raise _Invalid(lambda place: f"{place} must be a list, not {_json_name(value)}")
        items = []
        try:
            for item in value:
                items.append(inner(item))
        except _Invalid as error:
            error.place = _joined(f"[{len(items)}]", error.place)
            raise
        return tuple(items)

    return read


def _choice_reader(choices: dict[Any, Any]) -> _Reader:
    def read(value: object) -> Any:
        if not isinstance(value, str) or value not in choices:
            shown = repr(value)[:60] if isinstance(value, str) else _json_name(value)
            names = ", ".join(map(repr, choices))
            raise _Invalid(lambda place: f"{place} must be one of {names}, not {shown}")
        return choices[value]

    return read


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _not_a(float, value)
    if not abs(value) <= 1e300 or not math.isfinite(value):
        raise _Invalid(lambda place: f"{place} must be a finite number")
    return float(value)


def _plain_reader(wanted: type) -> _Reader:
    def read(value: object) -> Any:
        if type(value) is not wanted:
            raise _not_a(wanted, value)
        return value

    return read


def _not_a(wanted: type, value: object) -> _Invalid:
    return _Invalid(lambda place: f"{place} must be {_JSON_NAMES[wanted]}, not {_json_name(value)}")


_JSON_NAMES: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    tuple: "a list",
    type(None): "null",
}


def _json_name(value: object) -> str:
    return _JSON_NAMES.get(type(value), type(value).__name__)
