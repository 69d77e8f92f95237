"""Reading plain data back into dataclasses, with errors that name the place: `verdicts[2].line must be …`."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Built = TypeVar("Built")


def read(kind: type[Built], data: object, place: str) -> Built:
    """A `kind` from what `dataclasses.asdict` made of one, lists for tuples allowed.

    Every key must be there and no other. Fields that `kind` works out itself are compared with what stands in `data`.
    Raises `ValueError` that names the place below `place`, empty for the whole.
    """
    try:
        return cast("Built", _reader(cast("Hashable", kind))(data))
    except _Wrong as wrong:
        raise ValueError(wrong.tell(_joined(place, wrong.place))) from wrong.__cause__


@lru_cache
def hints(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass, by name."""
    found = get_type_hints(kind)
    return {each.name: found[each.name] for each in fields(kind)}


class _Wrong(Exception):
    """What is wrong, and where, as far as is known on the way up."""

    def __init__(self, tell: Callable[[str], str]) -> None:
        super().__init__()
        self.tell = tell
        self.place = ""


def _joined(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner and not inner.startswith("[") else outer + inner


_Reader = Callable[[object], Any]


@cache
def _reader(wanted: Any) -> _Reader:
    """What reads a value of this type; made once for each type: a class has thousands of reports."""
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
    given = [each.name for each in fields(kind) if each.init]
    worked_out = [each.name for each in fields(kind) if not each.init]

    def read_one(data: object) -> Any:
        if not isinstance(data, dict):
            raise _Wrong(lambda place: f"{place or 'the whole'} must be an object, not {_json_name(data)}")
        if data.keys() != readers.keys():
            raise _wrong_keys(kind, data, list(readers))
        values = {}
        for name, reader in readers.items():
            try:
                values[name] = reader(data[name])
            except _Wrong as wrong:
                wrong.place = _joined(name, wrong.place)
                raise
        try:
            built = kind(**{name: values[name] for name in given})
        except ValueError as error:
            words = str(error)
            raise _Wrong(lambda place: f"{place}: {words}" if place else words) from error
        for name in worked_out:
            if values[name] != getattr(built, name):
                raise _not_as_worked_out(name, values[name], getattr(built, name))
        return built

    return read_one


def _wrong_keys(kind: type, data: dict[Any, Any], wanted: list[str]) -> _Wrong:
    unknown = [str(key) for key in data if key not in wanted]
    if unknown:
        return _Wrong(lambda place: f"{_joined(place, unknown[0][:40])} is no key of a {kind.__name__}")
    missing = next(name for name in wanted if name not in data)
    return _Wrong(lambda place: f"{_joined(place, missing)} is missing")


def _not_as_worked_out(name: str, value: object, right: object) -> _Wrong:
    return _Wrong(lambda place: f"{_joined(place, name)} is {value!r}, and the rest makes {right!r}")


def _tuple_reader(inner: _Reader) -> _Reader:
    def read_one(value: object) -> Any:
        if not isinstance(value, list | tuple):
            raise _Wrong(lambda place: f"{place} must be a list, not {_json_name(value)}")
        items = []
        try:
            for item in value:
                items.append(inner(item))
        except _Wrong as wrong:
            wrong.place = _joined(f"[{len(items)}]", wrong.place)
            raise
        return tuple(items)

    return read_one


def _choice_reader(choices: dict[Any, Any]) -> _Reader:
    def read_one(value: object) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise _not_one_of(tuple(choices), value)
        return choices[value]

    return read_one


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _not_a(float, value)
    if not abs(value) <= 1e300 or not math.isfinite(value):
        raise _Wrong(lambda place: f"{place} must be a finite number")
    return float(value)


def _plain_reader(wanted: type) -> _Reader:
    def read_one(value: object) -> Any:
        if type(value) is not wanted:
            raise _not_a(wanted, value)
        return value

    return read_one


def _not_a(wanted: type, value: object) -> _Wrong:
    return _Wrong(lambda place: f"{place} must be {_JSON_NAMES[wanted]}, not {_json_name(value)}")


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


def _not_one_of(names: tuple[str, ...], value: object) -> _Wrong:
    shown = repr(value)[:60] if isinstance(value, str) else _json_name(value)
    return _Wrong(lambda place: f"{place} must be one of {', '.join(map(repr, names))}, not {shown}")
