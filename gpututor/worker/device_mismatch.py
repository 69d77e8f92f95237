"""The tensors of a failed expression, each with its device.

No code of the learner runs: names are looked up in the frame, attributes in dictionaries of instances and modules.
Calls, properties and subscripts are not evaluated.
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
"""Tensors of a module or a container."""
_MOST_DEPTH = 8
_MISSING = object()
_NAMES = (ast.Name, ast.Attribute)


def describe_tensors(error: BaseException, path: Path) -> str:
    """Return `x on cuda:0, self.mean on cpu` for the failed expression of the learner's file, or an empty text."""
    try:
        return ", ".join(islice(_name_tensors(error, path), MOST_NAMES))
    except Exception:
        return ""


def _name_tensors(error: BaseException, path: Path) -> Iterator[str]:
    last, step = None, error.__traceback__
    while step is not None:
        last = step if step.tb_frame.f_code.co_filename == str(path) else last
        step = step.tb_next
    if last is None:
        return
    frame, lines = last.tb_frame, _lines_of(last)
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, _NAMES)]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    chains = dict.fromkeys(name for node in nodes if _is_inside(node, lines) and (name := _dotted_name(node)))
    placed = {name: devices for name in chains if (devices := _devices_of(name, frame))}
    for name, devices in placed.items():
        # Longer names say more: `self` is left out next to `self.mean`, but `x` stays next to `x.T`.
        if not any(other.startswith(f"{name}.") for other in placed):
            yield f"{name} on {' and '.join(devices)}"


def _devices_of(name: str, frame: FrameType) -> list[str]:
    """Return the devices of the tensors that a dotted name leads to; empty if it leads to none."""
    tensors = islice(_tensors_in(_look_up(name.split("."), frame), _MOST_DEPTH), _MOST_INSIDE)
    return sorted({str(tensor.device)[:_LONGEST_NAME] for tensor in tensors})


_Range = tuple[tuple[int, int], tuple[int, int]]


def _lines_of(step: TracebackType) -> _Range:
    """Return (line, column) of both ends of the expression; the whole line if Python does not know."""
    positions = next(islice(step.tb_frame.f_code.co_positions(), step.tb_lasti // 2, None), (None,) * 4)
    line, last_line, column, last_column = positions
    if line is None or last_line is None or column is None or last_column is None:
        return (step.tb_lineno, 0), (step.tb_lineno, 1 << 30)
    return (line, column), (last_line, last_column)


def _is_inside(node: ast.expr, lines: _Range) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return lines[0] <= (node.lineno, node.col_offset) and end <= lines[1]


def _dotted_name(node: ast.expr) -> str:
    """Return a name such as `self.layer.weight`; empty if it does not begin with a name, or is too long."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    name = ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""
    return name if len(name) <= _LONGEST_NAME else ""


def _look_up(parts: list[str], frame: FrameType) -> Any:
    first, *rest = parts
    value = frame.f_locals.get(first, frame.f_globals.get(first, _MISSING))
    for part in rest:
        value = next((namespace[part] for namespace in _dictionaries(value) if part in namespace), _MISSING)
    return value


def _dictionaries(value: Any) -> list[dict[str, Any]]:
    """Return the dictionaries of attributes of an instance or a module."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []  # an object without attributes of its own
    if type(own) is not dict:
        return []
    names = ("_parameters", "_buffers", "_modules") if isinstance(value, torch.nn.Module) else ()
    return [own, *(own[name] for name in names if type(own.get(name)) is dict)]


def _tensors_in(value: Any, depth: int) -> Iterator[torch.Tensor]:
    """Yield a tensor, the tensors of a module, or those in plain lists, tuples and dicts."""
    contents: Any = ()
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        contents = [part for namespace in _dictionaries(value)[1:] for part in namespace.values()]
    elif type(value) in (list, tuple):
        contents = value
    elif type(value) is dict:
        contents = value.values()
    if depth:
        for part in islice(contents, _MOST_INSIDE):
            yield from _tensors_in(part, depth - 1)
