"""Traces as bounded, validated JSON and as binary files.

In both, a column of equal values is stored as that value. In JSON, times are stored as differences: `launched` from the
previous event, `start` from `launched`, `end` from `start`. Tables contain only the texts of these events.

Binary files are for processes of this machine and this version: numbers have the machine's byte order.
"""

from __future__ import annotations

import json
import operator
import os
from array import array
from itertools import accumulate, pairwise
from math import isfinite
from typing import Any, BinaryIO

from gpututor.trace.columns import LIMIT, MOST_BYTES, TYPES, Columns, Table, Trace, TraceError
from gpututor.trace.events import DTYPES, Kind

MAX_TEXT = 1000
"""Characters of a name or a file; longer texts are cut."""
_TABLES = {"name": "names", "device": "devices", "source": "devices", "target": "devices", "file": "files"}
"""Tables of columns."""
_TABLE_NAMES = ("names", "devices", "files")
_LATEST = 1 << 60
"""Nanoseconds (36 years): sums of such times still fit."""


def trace_to_json(trace: Trace) -> dict[str, Any]:
    """Return the stored events of `trace` as JSON data."""
    columns: dict[str, Any] = dict(trace.columns())
    tables: dict[str, list[str]] = {}
    for table in _TABLE_NAMES:
        texts = getattr(trace, table).texts()
        ours = [column for column, other in _TABLES.items() if other == table]
        used = Table()
        numbers = {0}.union(*(columns[column] for column in ours))
        new = {number: used[texts[number][:MAX_TEXT]] for number in sorted(numbers)}
        tables[table] = used.texts()
        for column in ours:
            columns[column] = [new[number] for number in columns[column]]
    launched, start, end = (columns[name] for name in ("launched", "start", "end"))
    columns["end"] = list(map(operator.sub, end, start))
    columns["start"] = list(map(operator.sub, start, launched))
    columns["launched"] = [after - before for before, after in pairwise([0, *launched])]
    length = len(launched)
    return {
        "length": length,
        "dropped": trace.dropped,
        **tables,
        "columns": {name: _short(columns[name]) for name in TYPES},
    }


def _short(values: Any) -> Any:
    first = values[0] if values else 0
    return first if all(value == first for value in values) else list(values)


def trace_from_json(data: object, *, limit: int = LIMIT) -> Trace:
    """Parse the output of `trace_to_json`. Raises `TraceError` for anything else."""
    if not isinstance(data, dict) or not isinstance(data.get("columns"), dict):
        raise TraceError("a trace is an object with columns")
    length = _count(data, "length")
    if length > limit:
        raise TraceError(f"a trace of {length} events is over the limit")
    read = {name: _numbers(name, data["columns"].get(name), length) for name in TYPES}
    read["launched"] = accumulate(read["launched"])
    columns: Columns = {}
    for name in TYPES:
        before = {"start": "launched", "end": "start"}.get(name)
        columns[name] = _column(name, map(operator.add, read[name], columns[before]) if before else read[name])
    tables = _tables({table: _texts(data.get(table), table, 3 * length + 1) for table in _TABLE_NAMES})
    _check_ranges(columns, tables)
    return Trace.of(columns, tables, _count(data, "dropped"), limit).completed()


def _count(data: dict[str, Any], name: str) -> int:
    value = data.get(name)
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise TraceError(f"{name} must be a count")
    return value


def _numbers(name: str, values: Any, length: int) -> Any:
    """Return the values of a column, checked for their type; a single value is repeated."""
    wanted = {int, float} if name == "flops" else {int}
    repeated = type(values) in wanted
    if repeated:
        values = [values]
    if type(values) is not list:
        raise TraceError(f"column {name!r} is missing")
    if not set(map(type, values)) <= wanted:
        raise TraceError(f"column {name!r} holds values that are not numbers")
    if not repeated and len(values) != length:
        raise TraceError("the columns differ in length")
    return values * length if repeated else values


def _column(name: str, values: Any) -> array[Any]:
    try:
        column = array(TYPES[name], values)
    except OverflowError:
        raise TraceError(f"column {name!r} holds a number that is too large") from None
    if name == "flops" and not all(map(isfinite, column)):
        raise TraceError("column 'flops' holds a number that is not finite")
    return column


def _texts(texts: Any, table: str, most: int) -> list[str]:
    if type(texts) is not list or not 0 < len(texts) <= most or texts[0] != "":
        raise TraceError(f"{table} must be a list of texts that begins with the empty one")
    if not all(type(text) is str and len(text) <= MAX_TEXT for text in texts):
        raise TraceError(f"{table} holds values that are not texts")
    if len(set(texts)) != len(texts):
        raise TraceError(f"{table} holds a text twice")
    return texts


def _tables(texts: dict[str, list[str]]) -> Trace:
    """Return a trace without events that has these tables."""
    tables = Trace(None)
    for table, known in texts.items():
        for text in known:
            getattr(tables, table)[text]
    return tables


def _check_ranges(columns: Columns, tables: Trace) -> None:
    import numpy as np  # takes a tenth of a second, and the front end imports this module

    ranges: dict[str, tuple[int, int]] = {
        "kind": (1, len(Kind)),
        "asynchronous": (0, 1),
        "dtype": (0, len(DTYPES) - 1),
        "partner": (-1, len(columns["kind"]) - 1),
        **dict.fromkeys(("size_bytes", "allocated", "requested", "moved", "programs"), (0, MOST_BYTES)),
        **dict.fromkeys(("launched", "start", "end"), (-1, _LATEST)),
        "line": (0, (1 << 31) - 1),
        **{column: (0, len(getattr(tables, table)) - 1) for column, table in _TABLES.items()},
    }
    for name, (low, high) in ranges.items():
        values = np.frombuffer(columns[name], dtype=columns[name].typecode)
        if values.size and not low <= values.min() <= values.max() <= high:
            raise TraceError(f"column {name!r} holds an impossible number")


VERSION = 3
MOST_EVENTS = 1 << 27
"""Maximum number of events of a trace file: no real trace has more."""


def write_trace(trace: Trace, path: str) -> None:
    """Write `trace` to `path` atomically."""
    columns = trace.columns()
    alone = {name: values[0] for name, values in columns.items() if values and values.count(values[0]) == len(values)}
    head = {
        "version": VERSION,
        "length": len(columns["kind"]),
        "dropped": trace.dropped,
        **{table: getattr(trace, table).texts() for table in _TABLE_NAMES},
        "alone": alone,
    }
    part = f"{path}.part"
    with open(part, "wb") as file:
        file.write(json.dumps(head).encode() + b"\n")
        for name in TYPES:
            if name not in alone:
                file.write(memoryview(columns[name]))
    os.replace(part, path)


def read_trace(path: str) -> Trace:
    """Read a file of `write_trace`. Raises `TraceError` for any other file, `OSError` for an unreadable file."""
    with open(path, "rb") as file:
        try:
            head = json.loads(file.readline())
            if head["version"] != VERSION:
                raise TraceError(f"{path} is of another version")
            if type(head["length"]) is not int or not 0 <= head["length"] <= MOST_EVENTS:
                raise TraceError(f"{path} is not a trace: it says that it has {head['length']!r} events")
            tables = _tables({table: head[table] for table in _TABLE_NAMES})
            columns: Columns = {name: _column_of_file(name, head, file) for name in TYPES}
            _check_ranges(columns, tables)
        except (ValueError, KeyError, TypeError, EOFError, OverflowError) as error:
            raise TraceError(f"{path} is not a trace: {error}") from error
    return Trace.of(columns, tables, head["dropped"], None)


def _column_of_file(name: str, head: dict[str, Any], file: BinaryIO) -> array[Any]:
    alone = [head["alone"][name]] if name in head["alone"] else []
    column: array[Any] = array(TYPES[name], alone)
    if alone:
        column *= head["length"]
    else:
        column.fromfile(file, head["length"])
    return column
