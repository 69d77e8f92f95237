"""Backends: events, clocks, streams, waits and memory of a kind of device, as far as torch supports them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import torch

from gpututor.hardware.scenario import ACCELERATORS

_LACKING = (AttributeError, NotImplementedError, RuntimeError, TypeError, AssertionError)
"""Errors that torch raises for a function that this version, build or machine does not have."""
Result = TypeVar("Result")


class Backend:
    """A kind of device with a module like `torch.cuda` or `torch.xpu`; the base class of other kinds.

    `index` is the number of a device of that kind.
    """

    granule = 512
    """Bytes to which the allocator rounds sizes up; 1 if unknown."""
    elapsed_waits = False
    """True if reading an event's time waits for the device. It is then read only when the host waits anyway."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        """`cuda`, `xpu` or `mps`."""
        self._module = getattr(torch, kind)
        self._event: Any = getattr(self._module, "Event", None)
        # The function without the observer's wrapper: the observer's own waits are not recorded.
        self._synchronize = _unwrapped(self._module, "synchronize")
        self._wait_for = _unwrapped(self._event, "synchronize")
        self._numbers: dict[tuple[int, int], int] = {}
        self._next = count(1)

    def current(self) -> int:
        """Return the number of this thread's current device."""
        return int(self._module.current_device())

    def count(self) -> int:
        """Return the number of devices; a large number if it is unknown."""
        return _answer(lambda: int(self._module.device_count()), sys.maxsize)

    def event(self) -> Any | None:
        """Return a new event with a clock; None if there are none."""
        return None if self._event is None else _answer(lambda: self._event(enable_timing=True), None)

    def record(self, event: Any, stream: Any) -> None:
        """Put the event into a stream."""
        event.record(stream)

    def is_reached(self, event: Any) -> bool:
        """Return True if the device has passed the event."""
        return bool(event.query())

    def wait_for(self, event: Any) -> None:
        """Wait until the device has passed the event."""
        self._wait_for(event)

    def elapsed_ms(self, earlier: Any, later: Any) -> float:
        """Return the milliseconds on the device's clock between two reached events; negative if swapped."""
        return float(earlier.elapsed_time(later))

    def stream(self, index: int) -> tuple[Any, int]:
        """Return this thread's current stream and its number, 0 for the default stream."""
        stream = self._module.current_stream(index)
        return stream, self.number_of(index, stream)

    def number_of(self, index: int, stream: Any) -> int:
        """Return the number of a stream; 0 if it is not a stream."""
        identity = getattr(stream, "stream_id", 0)
        if not identity:
            return 0
        known = self._numbers.get((index, identity))
        if known is None:
            known = self._numbers.setdefault((index, identity), next(self._next))
        return known

    def synchronize(self, index: int) -> None:
        """Wait for all work of the device."""
        self._synchronize(index)

    def is_capturing(self) -> bool:
        """Return True if launches become part of a graph now, instead of running."""
        is_capturing = getattr(self._module, "is_current_stream_capturing", None)
        try:
            return is_capturing is not None and bool(is_capturing())
        except _LACKING:
            return False

    def allocated(self, index: int) -> int:
        """Return the bytes of tensors on the device, by its allocator; 0 if unknown."""
        return self.figures(index)[0]

    def figures(self, index: int) -> tuple[int, int]:
        """Return the allocated bytes, and the number of allocations that first returned unused memory to the driver."""
        # Ten times as fast as `memory_allocated`, which flattens and sorts all statistics to return one.
        try:
            stats = self._module.memory_stats_as_nested_dict(index)
            return int(stats["allocated_bytes"]["all"]["current"]), int(stats.get("num_alloc_retries", 0))
        except (*_LACKING, KeyError):
            pass
        return _answer(lambda: int(self._module.memory_allocated(index)), 0), 0

    def reserved(self, index: int) -> int:
        """Return the bytes that the allocator got from the driver; 0 if unknown."""
        return _answer(lambda: int(self._module.memory_reserved(index)), 0)


class MpsBackend(Backend):
    """Apple's GPU: one device, one stream. Its clock is read when the host waits."""

    granule = 1
    elapsed_waits = True

    def __init__(self) -> None:
        super().__init__("mps")

    def current(self) -> int:
        return 0

    def record(self, event: Any, stream: Any) -> None:
        event.record()

    def stream(self, index: int) -> tuple[Any, int]:
        return None, 0

    def synchronize(self, index: int) -> None:
        self._synchronize()

    def count(self) -> int:
        return 1

    def figures(self, index: int) -> tuple[int, int]:
        return _answer(lambda: int(torch.mps.current_allocated_memory()), 0), 0


def backends() -> dict[str, Backend]:
    """Return the backends of this machine, by kind."""
    return {kind: MpsBackend() if kind == "mps" else Backend(kind) for kind in ACCELERATORS if _is_available(kind)}


def _is_available(kind: str) -> bool:
    return _answer(lambda: bool(getattr(torch, kind).is_available()), False)


def _answer(ask: Callable[[], Result], default: Result) -> Result:
    """Return the result of `ask`, or the default if this build of torch or the device lacks the function."""
    try:
        return ask()
    except _LACKING:
        return default


def _unwrapped(owner: Any, name: str) -> Callable[..., Any]:
    """Return torch's function without the observer's wrapper, or a function that does nothing if torch lacks it."""
    function: Callable[..., Any] = inspect.unwrap(getattr(owner, name, lambda *_: None))
    return function
