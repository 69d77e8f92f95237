"""Traces: events in rows, written by a recorder, read as columns by checks, summaries and timelines.

Many threads add events, even where no lock may be taken: Python can free an object, and its memory, in the middle of
any call. So nothing here locks. An event's number comes from an atomic counter and decides its row, which no other
event uses. One call of C writes the whole row: a row without a kind is not written yet.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import compress, count
from struct import Struct
from typing import Any

from gpututor.trace.events import DTYPES, NUMBERS, Event, Kind

LIMIT = 1_000_000
"""Default number of events of a trace."""
MOST_STORED = 10_000
"""Most events that a complete trace stores for its next reading: about 4 MiB."""
MOST_BYTES = 1 << 62
"""Largest size of an event."""
BLOCK = 256
"""Rows of a block. Most graded calls have fewer events, and each reading of a trace copies whole blocks."""
_SHIFT, _MASK = BLOCK.bit_length() - 1, BLOCK - 1

TYPES = {
    "kind": "b",
    "name": "i",
    "device": "h",
    "stream": "q",
    "source": "h",
    "target": "h",
    "size_bytes": "q",
    "flops": "d",
    "dtype": "b",
    "asynchronous": "b",
    "launched": "q",
    "start": "q",
    "end": "q",
    "allocated": "q",
    "partner": "i",
    "file": "i",
    "line": "i",
    "requested": "q",
    "moved": "q",
    "programs": "q",
}
"""Columns in the order of `Event`'s fields, with the type code of `array` and of `struct`.

Names, devices and files are numbers of the trace's tables; 0 is the empty text. A dtype is its position in `DTYPES`.
Line 0 means no line.
"""
_WIDTHS = {name: array(code).itemsize for name, code in TYPES.items()}
_IN_ROW = sorted(TYPES, key=_WIDTHS.__getitem__, reverse=True)
"""The columns in the order of a row: wide ones first, so that each is aligned. See the call of `_write_row`."""
ROW = Struct("".join(TYPES[name] for name in _IN_ROW) + "0q")
"""A row of a block, which one call writes faster than a store into each column."""
_OFFSETS = {name: sum(_WIDTHS[before] for before in _IN_ROW[:place]) for place, name in enumerate(_IN_ROW)}
_ROW_BYTES, _START = ROW.size, _OFFSETS["start"]
_write_row = ROW.pack_into
_write_times = Struct("2q").pack_into
_write_partner = Struct(TYPES["partner"]).pack_into
_write_traffic = Struct("3q").pack_into
_KINDS = {kind.number: kind for kind in Kind}
Columns = dict[str, "array[Any]"]


class TraceError(ValueError):
    """Data that is not a trace."""


class Table(defaultdict[str, int]):
    """Numbers of texts. `table[text]` gives a new text the next number; the empty text has 0."""

    def __init__(self, texts: tuple[str, ...] = ()) -> None:
        # The counter and the dictionary are C: no other thread interrupts them.
        super().__init__(count().__next__)
        for text in ("", *texts):
            self[text]

    def texts(self) -> list[str]:
        """Return the texts in the order of their numbers."""
        known = list(self.items())
        texts = [""] * (max(number for _, number in known) + 1)
        for text, number in known:
            texts[number] = text
        return texts


def _part(block: bytearray, name: str) -> memoryview:
    """Return a column of a block."""
    width = _WIDTHS[name]
    return memoryview(block).cast(TYPES[name])[_OFFSETS[name] // width :: ROW.size // width]  # type: ignore[call-overload,no-any-return]


class Trace:
    """The events of one run, in the order in which the host caused them."""

    def __init__(self, limit: int | None = LIMIT) -> None:
        self.limit = limit
        """Largest number of events; None without a limit."""
        self.dropped = 0
        """Number of events after the limit, which were only counted."""
        self.names, self.devices, self.files = Table(), Table(), Table()
        self._blocks: list[bytearray] = []
        """The rows, `BLOCK` of them in each."""
        self._numbers = count()
        self._is_complete = False
        self._events: tuple[Event, ...] | None = None

    def completed(self) -> Trace:
        """Return this trace, to which nothing will be added: its events are read once, unless there are many."""
        self._is_complete = True
        return self

    def add(
        self,
        kind: Kind,
        name: str,
        device: str,
        stream: int = 0,
        source: str = "",
        target: str = "",
        size_bytes: int = 0,
        flops: float = 0.0,
        dtype: str = "",
        asynchronous: bool = False,
        launched: int = -1,
        start: int = -1,
        end: int = -1,
        allocated: int = 0,
        partner: int = -1,
        file: str = "",
        line: int | None = None,
        requested: int = 0,
        moved: int = 0,
        programs: int = 0,
    ) -> int:
        """Append an event, from any thread; return its index, or -1 if the trace is full."""
        index = next(self._numbers)
        if self.limit is not None and index >= self.limit:
            self.dropped += 1
            return -1
        try:
            block = self._blocks[index >> _SHIFT]
        except IndexError:
            block = self._grow(index >> _SHIFT)
        # In the order of `_IN_ROW`.
        _write_row(
            block,
            (index & _MASK) * _ROW_BYTES,
            stream,
            size_bytes,
            flops,
            launched if launched >= 0 else -1,
            start if start >= 0 else -1,
            end if start >= 0 else -1,
            allocated,
            requested,
            moved,
            programs,
            self.names[name],
            partner if 0 <= partner <= index else -1,  # not an index of another trace
            self.files[file] if line else 0,
            line or 0,
            self.devices[device],
            self.devices[source] if source else 0,
            self.devices[target] if target else 0,
            kind.number,
            NUMBERS[dtype] if dtype else 0,
            asynchronous,
        )
        return index

    def set_times(self, index: int, start: int, end: int) -> None:
        """Set the times of event `index`, which were unknown when it was added; ignore index -1."""
        if index >= 0:
            _write_times(self._blocks[index >> _SHIFT], (index & _MASK) * _ROW_BYTES + _START, start, end)

    def set_partner(self, index: int, partner: int) -> None:
        """Set the earlier event that belongs to event `index`; ignore index -1."""
        if index >= 0:
            at = (index & _MASK) * _ROW_BYTES + _OFFSETS["partner"]
            _write_partner(self._blocks[index >> _SHIFT], at, partner)

    def set_traffic(self, index: int, requested: int, moved: int, programs: int) -> None:
        """Set the bytes that the programs of kernel `index` requested and moved; ignore index -1."""
        if index >= 0:
            at = (index & _MASK) * _ROW_BYTES + _OFFSETS["requested"]
            _write_traffic(self._blocks[index >> _SHIFT], at, requested, moved, programs)

    def __len__(self) -> int:
        for number in range(len(self._blocks) - 1, -1, -1):
            filled = len(_part(self._blocks[number], "kind").tobytes().rstrip(b"\0"))
            if filled:
                return number * BLOCK + filled
        return 0

    def __iter__(self) -> Iterator[Event]:
        """Yield the complete events."""
        if self._is_complete and len(self) <= MOST_STORED:
            self._events = self._events or tuple(self._read())
            return iter(self._events)
        return self._read()

    def _read(self) -> Iterator[Event]:
        names, devices, files = (table.texts().__getitem__ for table in (self.names, self.devices, self.files))
        read: dict[str, Callable[[Any], Any]] = {
            "kind": _KINDS.__getitem__,
            "name": names,
            **dict.fromkeys(("device", "source", "target"), devices),
            "dtype": DTYPES.__getitem__,
            "asynchronous": bool,
            "file": files,
            "line": lambda line: line or None,
        }
        length = len(self)
        for number, block in enumerate(self._blocks):
            filled = max(min(length - number * BLOCK, BLOCK), 0)
            columns: dict[str, Any] = {name: _part(block, name)[:filled].tolist() for name in TYPES}
            if 0 in (kinds := columns["kind"]):
                columns = {name: compress(values, kinds) for name, values in columns.items()}
            # No event takes a step of this function.
            values = (map(read[name], column) if name in read else column for name, column in columns.items())
            yield from map(Event._make, zip(*values, strict=True))

    def kinds(self) -> dict[Kind, int]:
        """Return the number of events of each kind that occurs."""
        counts = Counter(self.column("kind"))
        return {_KINDS[number]: counts[number] for number in sorted(counts) if number}

    def column(self, name: str) -> array[Any]:
        """Return a copy of one column; rows with kind 0 are incomplete."""
        return self._copied(name, 0, len(self))

    def _copied(self, name: str, start: int, end: int) -> array[Any]:
        values = array(TYPES[name])
        first = start >> _SHIFT
        for block in self._blocks[first:]:
            values.frombytes(_part(block, name).tobytes())
        before = first << _SHIFT
        return values[start - before : max(end - before, 0)]

    def columns(self, start: int = 0) -> Columns:
        """Return all columns from event `start` on, without incomplete rows; partners are renumbered, or -1."""
        end = len(self)
        columns = {name: self._copied(name, start, end) for name in TYPES}
        kinds = columns["kind"]
        if not start and 0 not in kinds:
            return columns
        complete = list(compress(range(start, start + len(kinds)), kinds))
        columns = {name: array(TYPES[name], compress(values, kinds)) for name, values in columns.items()}
        if complete and max(columns["partner"]) >= 0:
            new = {old: index for index, old in enumerate(complete)}
            columns["partner"] = array("i", [new.get(partner, -1) for partner in columns["partner"]])
        return columns

    def since(self, start: int) -> Trace:
        """Return the events from index `start` on as a trace; partners before it become -1."""
        return Trace.of(self.columns(start), self, self.dropped, self.limit)

    @classmethod
    def of(cls, columns: Columns, tables: Trace | None, dropped: int, limit: int | None) -> Trace:
        """Return a trace of these columns, with a copy of another trace's tables."""
        made = cls(limit)
        made.dropped = dropped
        if tables is not None:
            made.names, made.devices, made.files = (
                Table(tuple(table.texts()[1:])) for table in (tables.names, tables.devices, tables.files)
            )
        length = len(columns["kind"])
        for begin in range(0, length, BLOCK):
            block = made._grow(begin >> _SHIFT)
            for name, values in columns.items():
                part = values[begin : begin + BLOCK]
                _part(block, name)[: len(part)] = part
        made._numbers = count(length)
        return made

    def _grow(self, number: int) -> bytearray:
        # Two threads at once may add a second block; later events use it.
        while len(self._blocks) <= number:
            self._blocks.append(bytearray(BLOCK * _ROW_BYTES))
        return self._blocks[number]
