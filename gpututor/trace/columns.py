"""The trace: events kept in columns. Written by a recorder, read by checks, summaries and pictures.

Events are added by many threads, and also where no lock may be taken: memory is given back whenever Python drops an
object, in the middle of anything. So nothing here locks. An event's number comes from a counter, which is atomic; its
place in the blocks below follows from that number, and no other event ever touches it. The kind is written last: a row
without one is not there yet.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import compress, count
from typing import Any

from gpututor.trace.events import DTYPES, NUMBERS, Event, Kind

LIMIT = 1_000_000
"""How many events a trace holds where nobody says more or less."""
BLOCK = 4096
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
}
"""The columns, in the order of `Event`'s fields, with the type code of `array`: 81 bytes for an event.

Names, devices and files are numbers of the trace's tables; 0 is the empty text. A dtype is its position in
`DTYPES`. Line 0 is none.
"""
_UNKNOWN = frozenset({"launched", "start", "end", "partner"})
"""Their default is -1."""
_KINDS = {kind.number: kind for kind in Kind}
Columns = dict[str, "array[Any]"]


class TraceError(ValueError):
    """Something that is not a trace."""


class Table(defaultdict[str, int]):
    """Numbers for texts. `table[text]` gives a new text the next number; the empty one has 0."""

    def __init__(self, texts: tuple[str, ...] = ()) -> None:
        # The counter and the dictionary are C: no other thread comes between the two.
        super().__init__(count().__next__)
        for text in ("", *texts):
            self[text]

    def texts(self) -> list[str]:
        """The texts in the order of their numbers."""
        known = list(self.items())
        found = [""] * (max(number for _, number in known) + 1)
        for text, number in known:
            found[number] = text
        return found


class _Block:
    """Room for `BLOCK` events."""

    __slots__ = tuple(TYPES)

    def __init__(self) -> None:
        for name, empty in _EMPTY.items():
            setattr(self, name, empty[:])


_EMPTY: Columns = {name: array(code, [-1 if name in _UNKNOWN else 0]) * BLOCK for name, code in TYPES.items()}


class Trace:
    """The events of one run, in the order in which the host caused them."""

    def __init__(self, limit: int | None = LIMIT) -> None:
        self.limit = limit
        """How many events are kept; None for all."""
        self.dropped = 0
        """How many events came after the limit and were only counted."""
        self.names, self.devices, self.files = Table(), Table(), Table()
        self._blocks: list[Any] = []  # of _Block, whose attributes no type checker knows
        self._numbers = count()

    def add(
        self,
        kind: Kind,
        name: str,
        device: str,
        *,
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
    ) -> int:
        """Append an event; its index, or -1 when the trace is full. Any thread may, at any time."""
        index = next(self._numbers)
        if self.limit is not None and index >= self.limit:
            self.dropped += 1
            return -1
        try:
            block = self._blocks[index >> _SHIFT]
        except IndexError:
            block = self._grow(index >> _SHIFT)
        at = index & _MASK
        block.name[at] = self.names[name]
        block.device[at] = self.devices[device]
        # A block is made with the defaults in it: what is one is not written again, which halves the time.
        if stream:
            block.stream[at] = stream
        if source or target:
            block.source[at] = self.devices[source]
            block.target[at] = self.devices[target]
        if size_bytes:
            block.size_bytes[at] = size_bytes
        if flops:
            block.flops[at] = flops
        if dtype:
            block.dtype[at] = NUMBERS[dtype]
        if asynchronous:
            block.asynchronous[at] = 1
        if launched >= 0:
            block.launched[at] = launched
        if start >= 0:
            block.start[at] = start
            block.end[at] = end
        if allocated:
            block.allocated[at] = allocated
        if 0 <= partner <= index:  # one that stands in another trace is none here
            block.partner[at] = partner
        if line:
            block.file[at] = self.files[file]
            block.line[at] = line
        block.kind[at] = kind.number
        return index

    def set_times(self, index: int, start: int, end: int) -> None:
        """When event `index` ran, which nobody knew when it was added; -1 is none and is left alone."""
        if index >= 0:
            block = self._blocks[index >> _SHIFT]
            at = index & _MASK
            block.start[at] = start
            block.end[at] = end

    def set_partner(self, index: int, partner: int) -> None:
        """Which earlier event belongs to event `index`; -1 is none and is left alone."""
        if index >= 0:
            self._blocks[index >> _SHIFT].partner[index & _MASK] = partner

    def __len__(self) -> int:
        for number in range(len(self._blocks) - 1, -1, -1):
            filled = len(self._blocks[number].kind.tobytes().rstrip(b"\0"))
            if filled:
                return number * BLOCK + filled
        return 0

    def __iter__(self) -> Iterator[Event]:
        names, devices, files = self.names.texts(), self.devices.texts(), self.files.texts()
        length = len(self)
        for number, block in enumerate(self._blocks):
            filled = min(length - number * BLOCK, BLOCK)
            columns = [getattr(block, column)[: max(filled, 0)] for column in TYPES]
            for kind, name, device, stream, source, target, size, flops, dtype, asynchronous, *times, file, line in zip(
                *columns, strict=True
            ):
                if kind:
                    launched, start, end, allocated, partner = times
                    yield Event(
                        _KINDS[kind],
                        names[name],
                        devices[device],
                        stream,
                        devices[source],
                        devices[target],
                        size,
                        flops,
                        DTYPES[dtype],
                        bool(asynchronous),
                        launched,
                        start,
                        end,
                        allocated,
                        partner,
                        files[file],
                        line or None,
                    )

    def kinds(self) -> dict[Kind, int]:
        """How many events of each kind there are; kinds without one are left out."""
        counts = Counter(self.column("kind"))
        return {_KINDS[number]: counts[number] for number in sorted(counts) if number}

    def column(self, name: str) -> array[Any]:
        """A copy of one column, a row for each event, with the numbers of `TYPES`; kind 0 is a row to be left out."""
        found = array(TYPES[name])
        for block in self._blocks:
            found.extend(getattr(block, name))
        del found[len(self) :]
        return found

    def columns(self, start: int = 0) -> Columns:
        """All columns from event `start` on, without rows to be left out; partners are numbered anew, or -1."""
        kinds = self.column("kind")[start:]
        found = {name: self.column(name)[start:] for name in TYPES}
        places = range(len(kinds))
        if 0 in kinds:
            places_kept = list(compress(places, kinds))
            found = {name: array(TYPES[name], compress(values, kinds)) for name, values in found.items()}
        else:
            places_kept = list(places) if start else []
        partners = found["partner"]
        if places_kept and max(partners) >= 0:
            new = {start + old: place for place, old in enumerate(places_kept)}
            found["partner"] = array("i", [new.get(one, -1) for one in partners])
        return found

    def since(self, start: int) -> Trace:
        """The events from index `start` on, as a trace of their own; partners before it become -1."""
        return Trace.of(self.columns(start), self, self.dropped, self.limit)

    @classmethod
    def of(cls, columns: Columns, tables: Trace | None, dropped: int, limit: int | None) -> Trace:
        """A trace of these columns, with a copy of another one's tables."""
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
                getattr(block, name)[: len(part)] = part
        made._numbers = count(length)
        return made

    def _grow(self, number: int) -> Any:
        # Two threads may come here at once: then there is a block too many, which is the next one's.
        while len(self._blocks) <= number:
            self._blocks.append(_Block())
        return self._blocks[number]
