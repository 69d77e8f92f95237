"""The trace: what a device did, kept in columns. Written by a recorder, read by checks, summaries and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What kind of thing a device did."""

    KERNEL = "kernel"
    """Work that was launched on a device."""
    TRANSFER = "transfer"
    """A copy of bytes from one device to another: host to device, device to host, or between two GPUs."""
    SYNCHRONISE = "synchronise"
    """The host waited for a device."""
    COLLECTIVE = "collective"
    """Work that a device does together with those of other processes, such as an all-reduce."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a device did."""

    kind: Kind
    name: str
    """The operator or call that caused it, such as `aten::mm` or `torch.cuda.synchronize`."""
    device: str
    """The device that did it, such as `cuda:0`. For a transfer: the accelerator's side of it."""
    source: str
    """For a transfer: the device that the bytes came from. Else empty."""
    target: str
    """For a transfer: the device that the bytes went to. Else empty."""
    size_bytes: int
    """For a transfer: bytes moved. For a kernel: bytes of its inputs and outputs. For a collective: bytes sent.
    Else 0."""
    asynchronous: bool
    """For a transfer: the host did not wait for it (pinned memory and `non_blocking=True`). True for a collective."""
    line: int | None
    """The line of the learner's file that caused it; None when none of its lines did."""

    @property
    def to_device(self) -> bool:
        return self.kind is Kind.TRANSFER and self.source == "cpu" and self.target != "cpu"

    @property
    def to_host(self) -> bool:
        return self.kind is Kind.TRANSFER and self.source != "cpu" and self.target == "cpu"

    @property
    def between_devices(self) -> bool:
        return self.kind is Kind.TRANSFER and self.source != "cpu" and self.target != "cpu"


_COLUMNS: dict[str, type | tuple[type, ...]] = {
    "kind": str,
    "name": str,
    "device": str,
    "source": str,
    "target": str,
    "size_bytes": int,
    "asynchronous": bool,
    "line": (int, type(None)),
}


class TraceError(ValueError):
    """Columns that are not a trace."""


@dataclass(slots=True)
class Trace:
    """The events of one run, in the order in which the host caused them. One list per field of `Event`."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    dropped: int = 0
    """How many events came after the limit and were only counted."""
    limit: int = 1_000_000

    def add(
        self,
        kind: Kind,
        name: str,
        device: str,
        *,
        source: str = "",
        target: str = "",
        size_bytes: int = 0,
        asynchronous: bool = False,
        line: int | None = None,
    ) -> None:
        columns = self.columns
        if len(columns["kind"]) >= self.limit:
            self.dropped += 1
            return
        columns["kind"].append(str(kind))
        columns["name"].append(name)
        columns["device"].append(device)
        columns["source"].append(source)
        columns["target"].append(target)
        columns["size_bytes"].append(size_bytes)
        columns["asynchronous"].append(asynchronous)
        columns["line"].append(line)

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def __iter__(self) -> Iterator[Event]:
        for kind, *rest in zip(*(self.columns[name] for name in _COLUMNS), strict=True):
            yield Event(Kind(kind), *rest)

    def since(self, start: int) -> Trace:
        """The events from index `start` on, as a trace of their own."""
        columns = {name: values[start:] for name, values in self.columns.items()}
        return Trace(columns, self.dropped, self.limit)

    def to_json(self) -> dict[str, Any]:
        return {"columns": self.columns, "dropped": self.dropped}

    @classmethod
    def from_json(cls, data: object, *, limit: int = 1_000_000) -> Trace:
        """Read what `to_json` wrote; raises `TraceError` for anything else, however strange."""
        if not isinstance(data, dict) or not isinstance(data.get("columns"), dict):
            raise TraceError("a trace is an object with columns")
        columns: dict[str, list[Any]] = {}
        for name, wanted in _COLUMNS.items():
            values = data["columns"].get(name)
            if not isinstance(values, list):
                raise TraceError(f"column {name!r} is missing")
            for value in values:
                if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
                    raise TraceError(f"column {name!r} holds {value!r}")
            columns[name] = values
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1 or max(lengths) > limit:
            raise TraceError("the columns differ in length or are too long")
        if not set(columns["kind"]) <= set(Kind):
            raise TraceError("a kind of event that nobody knows")
        dropped = data.get("dropped", 0)
        if not isinstance(dropped, int) or dropped < 0:
            raise TraceError("dropped must be a count")
        return cls(columns, dropped, limit)


def lines_of(events: list[Event]) -> list[tuple[int, int]]:
    """(line, how many events it caused), the line with most events first; events without a line are left out."""
    return Counter(event.line for event in events if event.line is not None).most_common()
