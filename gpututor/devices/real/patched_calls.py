"""Patched calls: functions of torch that no dispatch mode sees. Waits, graphs, ranges and printing, in one table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, NamedTuple

import torch

from gpututor.devices.real.observer import Observation
from gpututor.devices.recorder import Place
from gpututor.devices.virtual.operators.operands import bytes_of

Real = Callable[..., Any]
Open = tuple[str, int, Place | None]
"""A range that has begun: its name, its time, and the line that began it."""


Watch = Callable[[Observation, Real, str], Real]
"""Wraps a real function, given the observation and the function's full name."""


class Row(NamedTuple):
    """A call that is watched while devices are."""

    owner: str
    """The module or class below torch that has it, such as `cuda.Stream`."""
    name: str
    watch: Watch


def _waiting(waits_for: Callable[..., tuple[torch.device | None, int]]) -> Watch:
    """Record a call as a wait for the device and stream that `waits_for(observation, *args, **kwargs)` returns."""

    def watch(seen: Observation, real: Real, name: str) -> Real:
        @wraps(real)
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            began = seen.now()
            real(*args, **kwargs)
            device, stream = waits_for(seen, *args, **kwargs)
            if device is not None:
                seen.waited(name, device, stream, began)

        return synchronize

    return watch


def _device_wait(kind: str) -> Watch:
    """Watch `synchronize(device=None)` of a module."""

    def waits_for(seen: Observation, device: Any = None) -> tuple[torch.device, int]:
        return torch.device(kind, device) if isinstance(device, int) else torch.device(device or kind), 0

    return _waiting(waits_for)


@_waiting
def _accelerator_wait(seen: Observation, device: Any = None) -> tuple[torch.device | None, int]:
    accelerator = torch.accelerator.current_accelerator()
    index = device if isinstance(device, int) else None if device is None else torch.device(device).index
    if accelerator is not None and index is not None:
        accelerator = torch.device(accelerator.type, index)
    return accelerator, 0


@_waiting
def _stream_wait(seen: Observation, stream: Any) -> tuple[torch.device, int]:
    device = stream.device
    backend = seen.backends.get(device.type)
    return device, 0 if backend is None else backend.number_of(seen.index_of(device), stream)


def _event_wait(kind: str) -> Watch:
    # An event does not tell the stream that it was recorded in; if it was not recorded, it has no device either.
    return _waiting(lambda seen, event: (getattr(event, "device", None) or torch.device(kind), 0))


def _printing(seen: Observation, real: Real, name: str) -> Real:
    """Record printing, which reads elements one by one, as one copy and one wait, as for the virtual GPU."""

    @wraps(real)
    def __repr__(self: Any, **kwargs: Any) -> Any:
        recorder = seen.recorder
        if self.device.type in ("cpu", "meta") or not recorder.enabled:
            return real(self, **kwargs)
        device, began = seen.name_of(self.device), seen.now()
        recorder.enabled = False
        try:
            text = real(self, **kwargs)
        finally:
            recorder.enabled = True
        recorder.transfer(device, "cpu", bytes_of(self), name="print", launched=began)
        recorder.synchronise("print", device, launched=began, start=began, end=seen.now())
        return text

    return __repr__


def _graphs_device() -> torch.device:
    """Return the device on which a graph is captured."""
    return torch.device("cuda", torch.cuda.current_device())


def _capture_begin(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.capture_began(_graphs_device())
        try:
            return real(self, *args, **kwargs)
        except BaseException:
            seen.capture_ended(None)
            raise

    return capture_begin


def _capture_end(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        captured = None
        try:
            out = real(self, *args, **kwargs)
            captured = self
            return out
        finally:
            seen.capture_ended(captured)

    return capture_end


def _replay(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def replay(self: Any) -> Any:
        return seen.replay(self, _graphs_device(), lambda: real(self))

    return replay


class _Ranges(threading.local):
    """The ranges of a thread that are open."""

    def __init__(self) -> None:
        self.open: list[Open] = []


_ranges = _Ranges()
_by_identity: dict[object, Open] = {}
"""The ranges that `range_start` opened."""


def _opened(seen: Observation, message: object) -> Open:
    recorder = seen.recorder
    return str(message), seen.now(), recorder.place() if recorder.enabled else None


def _closed(seen: Observation, opened: Open) -> None:
    title, began, place = opened
    seen.recorder.range(title, launched=began, end=seen.now(), place=place)


def _then(record: Callable[..., None]) -> Watch:
    """Call `record(observation, result, *args, **kwargs)` after the real function."""

    def watch(seen: Observation, real: Real, name: str) -> Real:
        @wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            record(seen, result, *args, **kwargs)
            return result

        return call

    return watch


@_then
def _push(seen: Observation, depth: Any, msg: Any) -> None:
    _ranges.open.append(_opened(seen, msg))


@_then
def _pop(seen: Observation, depth: Any) -> None:
    if _ranges.open:
        _closed(seen, _ranges.open.pop())


@_then
def _start(seen: Observation, identity: Any, msg: Any) -> None:
    _by_identity[identity] = _opened(seen, msg)


@_then
def _end(seen: Observation, result: Any, range_id: Any) -> None:
    opened = _by_identity.pop(range_id, None)
    if opened is not None:
        _closed(seen, opened)


@_then
def _mark(seen: Observation, result: Any, msg: Any) -> None:
    now = seen.now()
    seen.recorder.range(str(msg), launched=now, end=now)


TABLE = (
    Row("Tensor", "__repr__", _printing),
    Row("cuda", "synchronize", _device_wait("cuda")),
    Row("xpu", "synchronize", _device_wait("xpu")),
    Row("mps", "synchronize", _device_wait("mps")),
    Row("accelerator", "synchronize", _accelerator_wait),
    Row("cuda.Stream", "synchronize", _stream_wait),
    Row("xpu.Stream", "synchronize", _stream_wait),
    Row("cuda.Event", "synchronize", _event_wait("cuda")),
    Row("xpu.Event", "synchronize", _event_wait("xpu")),
    Row("mps.Event", "synchronize", _event_wait("mps")),
    Row("cuda.CUDAGraph", "capture_begin", _capture_begin),
    Row("cuda.CUDAGraph", "capture_end", _capture_end),
    Row("cuda.CUDAGraph", "replay", _replay),
    Row("cuda.nvtx", "range_push", _push),
    Row("cuda.nvtx", "range_pop", _pop),
    Row("cuda.nvtx", "range_start", _start),
    Row("cuda.nvtx", "range_end", _end),
    Row("cuda.nvtx", "mark", _mark),
)
"""Waits of the host, and calls without an operator. Rows of a torch that lacks them are left out."""


@contextmanager
def watched(seen: Observation) -> Iterator[None]:
    """Watch the calls of the table inside the block."""
    before: list[tuple[Any, str, Any]] = []
    _ranges.open.clear()  # ranges that an earlier observation left open have other times
    _by_identity.clear()
    try:
        for row in TABLE:
            owner = torch
            for part in row.owner.split("."):
                owner = getattr(owner, part, None)  # type: ignore[assignment]
            original = vars(owner).get(row.name) if owner is not None else None
            if original is None:
                continue
            with suppress(TypeError):  # a class of C, which cannot be changed
                setattr(owner, row.name, row.watch(seen, original, f"torch.{row.owner}.{row.name}"))
                before.append((owner, row.name, original))
        yield
    finally:
        for owner, name, original in reversed(before):
            setattr(owner, name, original)
