"""What a kind of real device offers for watching it: events with a clock, streams, waits, memory.

Whatever a version of torch lacks is simply not known: no function here fails for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import torch

KINDS = ("cuda", "xpu", "mps")
_LACKING = (AttributeError, NotImplementedError, RuntimeError, TypeError, AssertionError)
"""What torch raises for a function that this version, build or machine does not have."""


class Backend(Protocol):
    """One kind of device. `index` is the number of a device of that kind."""

    kind: str
    """`cuda`, `xpu` or `mps`."""
    granule: int
    """Its allocator gives multiples of so many bytes; 1 where that is not known."""
    elapsed_waits: bool
    """Reading an event's time waits for the device, so that it is done only when the host waits anyway."""

    def current(self) -> int:
        """The number of this thread's current device."""

    def event(self) -> Any | None:
        """A new event with a clock; None where there are none."""

    def record(self, event: Any, stream: Any) -> None:
        """Put the event into a stream."""

    def is_reached(self, event: Any) -> bool:
        """Whether the device has come past the event."""

    def wait_for(self, event: Any) -> None:
        """The host waits until the device has come past the event."""

    def elapsed_ms(self, earlier: Any, later: Any) -> float:
        """Milliseconds on the device's clock from one event to another, both reached; negative if turned round."""

    def stream(self, index: int) -> tuple[Any, int]:
        """This thread's current stream, and its number, 0 for the default one."""

    def number_of(self, index: int, stream: Any) -> int:
        """The number of a stream; 0 for what is none."""

    def synchronise(self, index: int) -> None:
        """The host waits for all work of the device."""

    def is_capturing(self) -> bool:
        """Whether what is launched now becomes part of a graph, and does not run."""

    def allocated(self, index: int) -> int:
        """Bytes that tensors have on the device, as its allocator counts them; 0 where it does not tell."""


class TorchBackend:
    """A kind of device by its module, `torch.cuda` or `torch.xpu`, which are alike."""

    granule = 512
    elapsed_waits = False

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._module = getattr(torch, kind)
        self._event = getattr(self._module, "Event", None)
        # Bound before they are watched: what the recorder does for itself is not written down.
        self._synchronise = _own(self._module, "synchronize")
        self._wait_for = _own(self._event, "synchronize")
        self._numbers: dict[tuple[int, int], int] = {}
        self._next = count(1)

    def current(self) -> int:
        return int(self._module.current_device())

    def event(self) -> Any | None:
        try:
            return self._event(enable_timing=True) if self._event is not None else None
        except _LACKING:
            return None

    def record(self, event: Any, stream: Any) -> None:
        event.record(stream)

    def is_reached(self, event: Any) -> bool:
        return bool(event.query())

    def wait_for(self, event: Any) -> None:
        self._wait_for(event)

    def elapsed_ms(self, earlier: Any, later: Any) -> float:
        return float(earlier.elapsed_time(later))

    def stream(self, index: int) -> tuple[Any, int]:
        stream = self._module.current_stream(index)
        return stream, self.number_of(index, stream)

    def number_of(self, index: int, stream: Any) -> int:
        identity = getattr(stream, "stream_id", 0)
        if not identity:
            return 0
        known = self._numbers.get((index, identity))
        if known is None:
            known = self._numbers.setdefault((index, identity), next(self._next))
        return known

    def synchronise(self, index: int) -> None:
        self._synchronise(index)

    def is_capturing(self) -> bool:
        asked = getattr(self._module, "is_current_stream_capturing", None)
        try:
            return asked is not None and bool(asked())
        except _LACKING:
            return False

    def allocated(self, index: int) -> int:
        # A tenth of the time of `memory_allocated`, which flattens and sorts all figures for one of them.
        try:
            return int(self._module.memory_stats_as_nested_dict(index)["allocated_bytes"]["all"]["current"])
        except (*_LACKING, KeyError):
            pass
        try:
            return int(self._module.memory_allocated(index))
        except _LACKING:
            return 0


class MpsBackend:
    """Apple's GPU: one device, one stream. Its clock is read when the host waits."""

    kind = "mps"
    granule = 1
    elapsed_waits = True

    def __init__(self) -> None:
        self._event = getattr(torch.mps, "Event", None)
        self._synchronise = _own(torch.mps, "synchronize")
        self._wait_for = _own(self._event, "synchronize")

    def current(self) -> int:
        return 0

    def event(self) -> Any | None:
        try:
            return self._event(enable_timing=True) if self._event is not None else None
        except _LACKING:
            return None

    def record(self, event: Any, stream: Any) -> None:
        event.record()

    def is_reached(self, event: Any) -> bool:
        return bool(event.query())

    def wait_for(self, event: Any) -> None:
        self._wait_for(event)

    def elapsed_ms(self, earlier: Any, later: Any) -> float:
        return float(earlier.elapsed_time(later))

    def stream(self, index: int) -> tuple[Any, int]:
        return None, 0

    def number_of(self, index: int, stream: Any) -> int:
        return 0

    def synchronise(self, index: int) -> None:
        self._synchronise()

    def is_capturing(self) -> bool:
        return False

    def allocated(self, index: int) -> int:
        try:
            return int(torch.mps.current_allocated_memory())
        except _LACKING:
            return 0


def backends() -> dict[str, Backend]:
    """Those of this machine, by kind."""
    found: dict[str, Backend] = {}
    for kind in ("cuda", "xpu"):
        if _is_there(getattr(torch, kind, None)):
            found[kind] = TorchBackend(kind)
    if _is_there(getattr(torch, "mps", None)):
        found["mps"] = MpsBackend()
    return found


def _is_there(module: Any) -> bool:
    try:
        return module is not None and bool(module.is_available())
    except _LACKING:
        return False


def _own(owner: Any, name: str) -> Callable[..., Any]:
    """A function as torch has it, below whatever watches it."""

    def lacking(*_: Any) -> None:
        """This torch has no such function: there is nothing to wait for."""

    found: Callable[..., Any] = inspect.unwrap(getattr(owner, name, lacking))
    return found
