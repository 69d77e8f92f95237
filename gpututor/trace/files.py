"""A trace as a file: a line of JSON with the tables, then the columns as they are in memory, 81 bytes for an event.

For traces of this machine's processes, which are read soon and by the same version: numbers are in the machine's own
byte order. A column whose values are all the same is that value alone, in the first line.
"""

from __future__ import annotations

import json
import os
from array import array
from typing import Any, BinaryIO

from gpututor.trace.columns import TYPES, Columns, Trace, TraceError

VERSION = 2
MOST_EVENTS = 1 << 27
"""More than any trace holds: what says that it has more is not read."""
_TABLES = ("names", "devices", "files")


def write_trace(trace: Trace, path: str) -> None:
    """Write `trace` to `path`, whole or not at all."""
    columns = trace.columns()
    alone = {name: values[0] for name, values in columns.items() if values and values.count(values[0]) == len(values)}
    head = {
        "version": VERSION,
        "length": len(columns["kind"]),
        "dropped": trace.dropped,
        **{table: getattr(trace, table).texts() for table in _TABLES},
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
    """Read what `write_trace` wrote. Raises `TraceError` for another file, `OSError` where it cannot be read."""
    with open(path, "rb") as file:
        try:
            head = json.loads(file.readline())
            if head["version"] != VERSION:
                raise TraceError(f"{path} is of another version")
            if type(head["length"]) is not int or not 0 <= head["length"] <= MOST_EVENTS:
                raise TraceError(f"{path} is not a trace: it says that it has {head['length']!r} events")
            tables = Trace(None)
            for table in _TABLES:
                for text in head[table][1:]:
                    getattr(tables, table)[text]
            columns: Columns = {name: _column(name, head, file) for name in TYPES}
        except (ValueError, KeyError, TypeError, EOFError, OverflowError) as error:
            raise TraceError(f"{path} is not a trace: {error}") from error
    return Trace.of(columns, tables, head["dropped"], None)


def _column(name: str, head: dict[str, Any], file: BinaryIO) -> array[Any]:
    length = head["length"]
    if name in head["alone"]:
        alone: array[Any] = array(TYPES[name], [head["alone"][name]])
        alone *= length
        return alone
    column = array(TYPES[name])
    column.fromfile(file, length)
    return column
