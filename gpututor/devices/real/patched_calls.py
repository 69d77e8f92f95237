"""Patched calls, in one table: waits, graphs, ranges and other functions of torch that no dispatch mode sees."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from gpututor.devices.real.observation import Observation
from gpututor.devices.recorder import Place
from gpututor.devices.virtual.operators.operands import bytes_of

Real = Callable[..., Any]
Open = tuple[str, int, Place | None]
"""A range that has begun: its name, its time, and the line that began it."""


Watch = Callable[[Observation, Real, str], Real]
"""Wraps a real function, given the observation and the function's full name."""


class WatchedCall(NamedTuple):
    """A row of the table: a call to watch while real devices are observed."""

    owner: str
    """Module or class in torch, such as `cuda.Stream`; empty for torch itself."""
    name: str
    watch: Watch

    @property
    def full_name(self) -> str:
        return f"torch.{self.owner}.{self.name}" if self.owner else f"torch.{self.name}"


_PACKAGES = Path(torch.__file__).parent.parent
_LIBRARIES = tuple(f"{_PACKAGES / name}{os.sep}" for name in ("torch", "triton"))
_COMPILERS = tuple(f"{_PACKAGES / name}{os.sep}" for name in ("torch/_dynamo", "torch/_inductor", "triton/runtime"))


def _is_for_a_compiler() -> bool:
    """Return True if a compiler made the watched call, not a program.

    Inductor and Triton wait while they compare variants of a kernel; Inductor waits before it records a CUDA graph.
    """
    frame: FrameType | None = sys._getframe(3)  # above the watched call and `_around`
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        if frame.f_code.co_filename.startswith(_COMPILERS):
            return True
        frame = frame.f_back
    return False


def _around(call: Callable[..., Any]) -> Watch:
    """Wrap the real function: run `call(observation, real function, its full name, *args, **kwargs)` instead."""

    def watch(seen: Observation, real: Real, name: str) -> Real:
        @wraps(real)
        def watched_call(*args: Any, **kwargs: Any) -> Any:
            return call(seen, real, name, *args, **kwargs)

        return watched_call

    return watch


def _waiting(waits_for: Callable[..., tuple[torch.device | None, int]]) -> Watch:
    """Record the call as a wait. `waits_for(observation, *args, **kwargs)` returns its device and stream."""

    @_around
    def synchronize(seen: Observation, real: Real, name: str, /, *args: Any, **kwargs: Any) -> None:
        began = seen.now()
        real(*args, **kwargs)
        if _is_for_a_compiler():
            return
        device, stream = waits_for(seen, *args, **kwargs)
        if device is not None:
            seen.waited(name, device, stream, began)

    return synchronize


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
    # An event does not expose its stream; an event that was never recorded has no device either.
    return _waiting(lambda seen, event: (getattr(event, "device", None) or torch.device(kind), 0))


@_around
def _printing(seen: Observation, real: Real, name: str, /, self: Any, **kwargs: Any) -> Any:
    """Record printing, which reads elements one by one, as one copy and one wait, as for the virtual GPU."""
    recorder = seen.recorder
    if self.device.type in ("cpu", "meta") or not self.numel() or not recorder.enabled or seen.is_unobserved():
        return real(self, **kwargs)
    device, began = seen.name_of(self.device), seen.now()
    with seen.unobserved():
        text = real(self, **kwargs)
    recorder.transfer(device, "cpu", bytes_of(self), name="print", launched=began)
    recorder.synchronize("print", device, launched=began, start=began, end=seen.now())
    return text


@_around
def _as_number(seen: Observation, real: Real, name: str, self: Any) -> Any:
    """Record the read of a number that no mode sees, such as by `torch.tensor([x, y])`."""
    if self.device.type not in seen.backends or not seen.recorder.enabled or seen.is_unobserved():
        return real(self)
    reads, began = seen.reads, seen.now()
    number = real(self)
    if seen.reads == reads and not torch.compiler.is_compiling():
        seen.reads += 1  # a tensor subclass may call this method twice
        device = seen.name_of(self.device)
        seen.recorder.transfer(device, "cpu", self.element_size(), name=_READ, launched=began)
        seen.waited(_READ, self.device, 0, began)
    return number


_READ = "aten::_local_scalar_dense"


@_around
def _sleep(seen: Observation, real: Real, name: str, cycles: Any) -> Any:
    """Record the sleep as a kernel."""
    return seen.launch(name, _current_device(), 0, lambda: real(cycles))


@_around
def _emptying(seen: Observation, real: Real, name: str, /, *args: Any, **kwargs: Any) -> None:
    """Record the wait of `cudaFree` if memory returns to the driver."""
    backend, began = seen.backends.get("cuda"), seen.now()
    before = [] if backend is None else [backend.reserved(index) for index in range(backend.count())]
    real(*args, **kwargs)
    if _is_for_a_compiler():
        return
    for index, reserved in enumerate(before):
        if backend is not None and backend.reserved(index) < reserved:
            seen.returned_memory(torch.device("cuda", index), began)


@_around
def _tracing(seen: Observation, real: Real, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Let `torch.jit.trace` see convolutions, which it records below the operator that the mode sees."""
    from gpututor.devices.virtual.api.jit import for_tracing

    with for_tracing():
        return real(*args, **kwargs)


@_around
def _compiling(seen: Observation, real: Real, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Watch the launcher of compiled kernels once the program calls `torch.compile`."""
    compiled = real(*args, **kwargs)
    if seen.backends:
        with suppress(ImportError):
            import_module(_LAUNCHERS)
        seen.watch_loaded()
    return compiled


_LAUNCHERS = "torch._inductor.runtime.triton_heuristics"


@_around
def _compiled_kernel(seen: Observation, real: Real, name: str, /, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Record a kernel that TorchInductor generated; compiled code dispatches operators only to call libraries."""
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    if not tensors or kwargs.get("benchmark_run"):
        return real(self, *args, **kwargs)
    kernel = self.inductor_meta.get("kernel_name") or self.fn.__name__
    # The first launch may load the kernel, and may compare variants on the device: it gets no times.
    return seen.launch(
        kernel,
        tensors[0].device,
        sum(map(bytes_of, tensors)),
        lambda: real(self, *args, **kwargs),
        timed=len(self.launchers) == 1,
    )


def _current_device() -> torch.device:
    """Return the device on which CUDA captures a graph or runs `torch.cuda._sleep`."""
    return torch.device("cuda", torch.cuda.current_device())


@_around
def _capture_begin(seen: Observation, real: Real, name: str, /, self: Any, *args: Any, **kwargs: Any) -> Any:
    seen.capture_began(_current_device())
    try:
        with seen.unobserved():  # fills the generator's seed and offset, which the graph's kernels read
            return real(self, *args, **kwargs)
    except BaseException:
        seen.capture_ended(None)
        raise


@_around
def _capture_end(seen: Observation, real: Real, name: str, /, self: Any, *args: Any, **kwargs: Any) -> Any:
    captured = None
    try:
        with seen.unobserved():
            out = real(self, *args, **kwargs)
        captured = self
        return out
    finally:
        seen.capture_ended(captured)


@_around
def _replay(seen: Observation, real: Real, name: str, self: Any) -> Any:
    return seen.replay(self, _current_device(), lambda: real(self))


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

    @_around
    def call(seen: Observation, real: Real, name: str, /, *args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        record(seen, result, *args, **kwargs)
        return result

    return call


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
    WatchedCall("Tensor", "__repr__", _printing),
    WatchedCall("Tensor", "__float__", _as_number),
    WatchedCall("Tensor", "__index__", _as_number),
    WatchedCall("Tensor", "__complex__", _as_number),
    WatchedCall("cuda", "_sleep", _sleep),
    WatchedCall("cuda", "empty_cache", _emptying),
    WatchedCall("accelerator", "empty_cache", _emptying),
    WatchedCall("cuda", "synchronize", _device_wait("cuda")),
    WatchedCall("xpu", "synchronize", _device_wait("xpu")),
    WatchedCall("mps", "synchronize", _device_wait("mps")),
    WatchedCall("accelerator", "synchronize", _accelerator_wait),
    WatchedCall("cuda.Stream", "synchronize", _stream_wait),
    WatchedCall("xpu.Stream", "synchronize", _stream_wait),
    WatchedCall("cuda.Event", "synchronize", _event_wait("cuda")),
    WatchedCall("xpu.Event", "synchronize", _event_wait("xpu")),
    WatchedCall("mps.Event", "synchronize", _event_wait("mps")),
    WatchedCall("cuda.CUDAGraph", "capture_begin", _capture_begin),
    WatchedCall("cuda.CUDAGraph", "capture_end", _capture_end),
    WatchedCall("cuda.CUDAGraph", "replay", _replay),
    WatchedCall("cuda.nvtx", "range_push", _push),
    WatchedCall("cuda.nvtx", "range_pop", _pop),
    WatchedCall("cuda.nvtx", "range_start", _start),
    WatchedCall("cuda.nvtx", "range_end", _end),
    WatchedCall("cuda.nvtx", "mark", _mark),
    WatchedCall("", "compile", _compiling),
    WatchedCall("jit", "trace", _tracing),
    WatchedCall("jit", "trace_module", _tracing),
    WatchedCall(_LAUNCHERS.removeprefix("torch.") + ".CachingAutotuner", "run", _compiled_kernel),
)
"""Waits of the host, and calls without an operator. Rows that this version of torch lacks are skipped."""


def _loaded(path: str) -> Any:
    """Return a module or class below torch; None if torch lacks it, or has not loaded it."""
    owner: Any = torch
    for part in path.split(".") if path else ():
        owner = getattr(owner, part, None)
    return owner


@contextmanager
def watch_calls(seen: Observation) -> Iterator[None]:
    """Watch the calls of the table inside the block."""
    _ranges.open.clear()  # ranges that an earlier observation left open have other times
    _by_identity.clear()
    known: set[tuple[Any, str]] = set()
    with ExitStack() as undo:

        def add_all() -> None:
            """Watch the table's calls that are loaded and not yet watched."""
            for row in TABLE:
                owner = _loaded(row.owner)
                original = getattr(owner, row.name, None)
                if original is None or (owner, row.name) in known:
                    continue
                with suppress(TypeError):  # a C class, which cannot be changed
                    undo.enter_context(patch.object(owner, row.name, row.watch(seen, original, row.full_name)))
                    known.add((owner, row.name))

        seen.watch_loaded = add_all
        add_all()
        yield
