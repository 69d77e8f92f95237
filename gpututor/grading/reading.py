"""Reading plain data back into dataclasses, with errors that name the place: `verdicts[2].line must be …`."""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Built = TypeVar("Built")


def read(kind: type[Built], data: object, place: str) -> Built:
    """A `kind` from what `dataclasses.asdict` made of one, lists for tuples allowed.

    Every key must be there and no other. Fields that `kind` works out itself are compared with what stands in `data`.
    Raises `ValueError` that names the place below `place`, empty for the whole.
    """
    return cast("Built", _dataclass(kind, data, place))


@lru_cache
def hints(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass, by name."""
    found = get_type_hints(kind)
    return {each.name: found[each.name] for each in fields(kind)}


def _dataclass(kind: type, data: object, place: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{place or 'the whole'} must be an object, not {_json_name(data)}")
    wanted = hints(kind)
    if unknown := [str(key) for key in data if key not in wanted]:
        raise ValueError(f"{_below(place, unknown[0][:40])} is no key of a {kind.__name__}")
    if missing := [name for name in wanted if name not in data]:
        raise ValueError(f"{_below(place, missing[0])} is missing")
    values = {name: _value(wanted[name], data[name], _below(place, name)) for name in wanted}
    given = {each.name: values[each.name] for each in fields(kind) if each.init}
    try:
        built = kind(**given)
    except ValueError as error:
        raise ValueError(f"{place}: {error}" if place else str(error)) from error
    for name in values.keys() - given.keys():
        if values[name] != getattr(built, name):
            raise ValueError(f"{_below(place, name)} is {values[name]!r}, and the rest makes {getattr(built, name)!r}")
    return built


def _value(wanted: Any, value: object, place: str) -> Any:
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        if not isinstance(value, str) or value not in arguments:
            raise _not_one_of(arguments, value, place)
        return value
    if origin in (Union, types.UnionType):  # only `X | None`
        return None if value is None else _value(arguments[0], value, place)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{place} must be a list, not {_json_name(value)}")
        return tuple(_value(arguments[0], item, f"{place}[{position}]") for position, item in enumerate(value))
    if is_dataclass(wanted):
        return _dataclass(cast("type", wanted), value, place)
    if issubclass(wanted, StrEnum):
        names = tuple(member.value for member in wanted)
        if not isinstance(value, str) or value not in names:
            raise _not_one_of(names, value, place)
        return wanted(value)
    return _plain(wanted, value, place)


def _plain(wanted: type, value: object, place: str) -> Any:
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) <= 1e300 or not math.isfinite(value):
            raise ValueError(f"{place} must be a finite number")
        return float(value)
    if type(value) is not wanted:
        raise ValueError(f"{place} must be {_JSON_NAMES[wanted]}, not {_json_name(value)}")
    return value


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


def _not_one_of(names: tuple[str, ...], value: object, place: str) -> ValueError:
    shown = repr(value)[:60] if isinstance(value, str) else _json_name(value)
    return ValueError(f"{place} must be one of {', '.join(map(repr, names))}, not {shown}")


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
