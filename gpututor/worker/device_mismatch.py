"""The tensors that meet in the expression that failed, each with its device.

Nothing of the learner's code runs for it: names are looked up in the frame, attributes in the dictionaries of instances
and modules. Calls, properties and subscripts are not evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch

MOST_NAMES = 8
_LONGEST_NAME = 60
_MOST_INSIDE = 1000
"""Tensors of a module or a container that are looked at."""
_MOST_DEPTH = 8
_MISSING = object()


def tensors_in_words(error: BaseException, path: Path) -> str:
    """Return `x on cuda:0, self.mean on cpu` for the expression of the learner's file that failed, or an empty text."""
    try:
        return ", ".join(islice(_named(error, path), MOST_NAMES))
    except Exception:
        return ""


def _named(error: BaseException, path: Path) -> Iterator[str]:
    last = _last_frame(error.__traceback__, path)
    if last is None:
        return
    frame, lines = last.tb_frame, _lines_of(last)
    chains: dict[str, None] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute) and _is_inside(node, lines) and (name := _chain(node)):
            chains[name] = None
    for name in chains:
        devices = _devices_of(_value(name.split("."), frame))
        # The longest chains tell most: `self` is not named next to `self.mean`.
        if devices and not any(other.startswith(f"{name}.") for other in chains):
            yield f"{name} on {' and '.join(devices)}"


def _last_frame(step: TracebackType | None, path: Path) -> TracebackType | None:
    found = None
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(path):
            found = step
        step = step.tb_next
    return found


_Range = tuple[tuple[int, int], tuple[int, int]]


def _lines_of(step: TracebackType) -> _Range:
    """Line and column at which the expression begins and ends; the whole line if Python does not know."""
    positions = next(islice(step.tb_frame.f_code.co_positions(), step.tb_lasti // 2, None), (None,) * 4)
    line, last_line, column, last_column = positions
    if line is None or last_line is None or column is None or last_column is None:
        return (step.tb_lineno, 0), (step.tb_lineno, 1 << 30)
    return (line, column), (last_line, last_column)


def _is_inside(node: ast.expr, lines: _Range) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return lines[0] <= (node.lineno, node.col_offset) and end <= lines[1]


def _chain(node: ast.expr) -> str:
    """`self.layer.weight`; empty if it begins with anything but a name, or is too long."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    name = ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""
    return name if len(name) <= _LONGEST_NAME else ""


def _value(parts: list[str], frame: FrameType) -> Any:
    first, *rest = parts
    value = frame.f_locals.get(first, frame.f_globals.get(first, _MISSING))
    for part in rest:
        places = _dictionaries(value)
        value = next((place[part] for place in places if part in place), _MISSING)
    return value


def _dictionaries(value: Any) -> list[dict[str, Any]]:
    """The dictionaries in which attributes of an instance or a module lie; none for anything else."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    if type(own) is not dict:
        return []
    names = ("_parameters", "_buffers", "_modules") if isinstance(value, torch.nn.Module) else ()
    return [own, *(own[name] for name in names if type(own.get(name)) is dict)]


def _devices_of(value: Any) -> list[str]:
    tensors = islice(_tensors_in(value, _MOST_DEPTH), _MOST_INSIDE)
    return sorted(dict.fromkeys(str(tensor.device)[:_LONGEST_NAME] for tensor in tensors))


def _tensors_in(value: Any, depth: int) -> Iterator[torch.Tensor]:
    """A tensor; those of a module; those in plain lists, tuples and dicts."""
    inside: Any = ()
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        inside = [part for place in _dictionaries(value)[1:] for part in place.values()]
    elif type(value) in (list, tuple):
        inside = value
    elif type(value) is dict:
        inside = value.values()
    if depth:
        for part in islice(inside, _MOST_INSIDE):
            yield from _tensors_in(part, depth - 1)
