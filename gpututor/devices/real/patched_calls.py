"""The calls of torch that do not come by a dispatch mode: waits, graphs, ranges, printing. One table names them."""

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
"""A range that has begun: its name, when, and the line that began it."""


class Row(NamedTuple):
    """One call that is watched while devices are."""

    owner: str
    """The module or class below torch that has it, such as `cuda.Stream`."""
    name: str
    watch: Callable[[Observation, Real, str], Real]
    """Given the observation, the real function and its full name: what stands in its place."""


def _device_wait(kind: str) -> Callable[[Observation, Real, str], Real]:
    """`synchronize(device=None)` of a module."""

    def watch(seen: Observation, real: Real, name: str) -> Real:
        @wraps(real)
        def synchronize(*args: Any, **kwargs: Any) -> Any:
            told = args[0] if args else kwargs.get("device")
            device = torch.device(kind, told) if isinstance(told, int) else torch.device(told or kind)
            began = seen.now()
            real(*args, **kwargs)
            seen.waited(name, device, 0, began)

        return synchronize

    return watch


def _accelerator_wait(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def synchronize(*args: Any, **kwargs: Any) -> Any:
        began = seen.now()
        real(*args, **kwargs)
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None:
            told = args[0] if args else kwargs.get("device")
            index = told if isinstance(told, int) else None if told is None else torch.device(told).index
            seen.waited(name, torch.device(accelerator.type, index) if index is not None else accelerator, 0, began)

    return synchronize


def _stream_wait(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def synchronize(self: Any) -> Any:
        began = seen.now()
        real(self)
        device = self.device
        backend = seen.backends.get(device.type)
        number = 0 if backend is None else backend.number_of(seen.index_of(device), self)
        seen.waited(name, device, number, began)

    return synchronize


def _event_wait(kind: str) -> Callable[[Observation, Real, str], Real]:
    def watch(seen: Observation, real: Real, name: str) -> Real:
        @wraps(real)
        def synchronize(self: Any) -> Any:
            began = seen.now()
            real(self)
            # Which stream it was recorded in, no event tells; one that was not recorded has no device.
            seen.waited(name, getattr(self, "device", None) or torch.device(kind), 0, began)

        return synchronize

    return watch


def _printing(seen: Observation, real: Real, name: str) -> Real:
    """Printing reads elements one by one: written down as one copy and one wait, as for the virtual GPU."""

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
    """Where a graph is captured."""
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
"""Those that `range_start` opened."""


def _opened(seen: Observation, message: object) -> Open:
    recorder = seen.recorder
    return str(message), seen.now(), recorder.place() if recorder.enabled else None


def _closed(seen: Observation, opened: Open) -> None:
    title, began, place = opened
    seen.recorder.range(title, launched=began, end=seen.now(), place=place)


def _push(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def range_push(msg: Any) -> Any:
        depth = real(msg)
        _ranges.open.append(_opened(seen, msg))
        return depth

    return range_push


def _pop(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def range_pop() -> Any:
        depth = real()
        if _ranges.open:
            _closed(seen, _ranges.open.pop())
        return depth

    return range_pop


def _start(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def range_start(msg: Any) -> Any:
        identity = real(msg)
        _by_identity[identity] = _opened(seen, msg)
        return identity

    return range_start


def _end(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def range_end(range_id: Any) -> Any:
        out = real(range_id)
        opened = _by_identity.pop(range_id, None)
        if opened is not None:
            _closed(seen, opened)
        return out

    return range_end


def _mark(seen: Observation, real: Real, name: str) -> Real:
    @wraps(real)
    def mark(msg: Any) -> Any:
        out = real(msg)
        now = seen.now()
        seen.recorder.range(str(msg), launched=now, end=now)
        return out

    return mark


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
"""What the host waits in, and what no operator tells of. Rows of a torch that lacks them are left out."""


@contextmanager
def watched(seen: Observation) -> Iterator[None]:
    """Watch the calls of the table, for the time of the block."""
    before: list[tuple[Any, str, Any]] = []
    _ranges.open.clear()  # what an earlier observation left open has times of its own
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
