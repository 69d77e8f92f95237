"""Waits: streams, the host, captures, and sync debug mode.

So the 33rd stream of a GPU is the first one again, and work on "both" is in order. On the clock and in the trace a
stream has a number: 0 is the default stream, 1 to 32 are those of priority 0, 33 to 64 those of priority -1, and so on.
"""

from __future__ import annotations

import warnings
from weakref import WeakKeyDictionary

from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.cuda_errors import nearest_outside
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine

STREAMS_PER_POOL = 32
PRIORITIES = 4
"""How many of CUDA's priorities PyTorch uses: 0 to -3 (max_compile_time_stream_priorities)."""
_TYPE_BITS = 4
_HANDLES = 0x5600_0000_0000
_handed_out: WeakKeyDictionary[VirtualGpu, list[int]] = WeakKeyDictionary()


def next_number(gpu: VirtualGpu, priority: int) -> int:
    """The stream that is next in the pool of that priority; raises torch's error for one above 0."""
    if priority > 0:
        raise RuntimeError(f"Expected cuda stream priority to be less than or equal to 0, got {priority}")
    pool = min(-priority, PRIORITIES - 1)
    handed_out = _handed_out.setdefault(gpu, [0] * PRIORITIES)
    turn = handed_out[pool]
    handed_out[pool] = turn + 1
    return 1 + pool * STREAMS_PER_POOL + turn % STREAMS_PER_POOL


def priority_of(number: int) -> int:
    """The priority of a stream: 0, or less for a more urgent one."""
    return 0 if number == 0 else -((number - 1) // STREAMS_PER_POOL)


def id_of(number: int) -> int:
    """`stream_id`: five bits for the place in the pool, four for the priority, and a last bit (Note [StreamId])."""
    if number == 0:
        return 0
    pool, place = divmod(number - 1, STREAMS_PER_POOL)
    return place << (_TYPE_BITS + 1) | (pool + 1) << 1 | 1


def number_of(stream_id: int) -> int:
    """The number on the clock; raises `NotImplementedError` for a stream that another library would have made."""
    if stream_id == 0:
        return 0
    pool, place = (stream_id >> 1 & 0xF) - 1, stream_id >> (_TYPE_BITS + 1)
    if not stream_id & 1 or not 0 <= pool < PRIORITIES or place >= STREAMS_PER_POOL:
        raise cuda_errors.unsupported("streams of other libraries", "Make streams by torch.cuda.Stream().")
    return 1 + pool * STREAMS_PER_POOL + place


def handle_of(device_index: int, number: int) -> int:
    """What stands for the pointer of CUDA's own stream: another number for each."""
    return _HANDLES + (device_index << 20) + (number << 8) if number else 0


WARN, ERROR = 1, 2
_WORDS = "called a synchronizing CUDA operation"


def is_captured(machine: VirtualMachine, gpu: VirtualGpu) -> bool:
    """Whether this thread's work on `gpu` becomes part of a graph."""
    return machine.capture is not None and machine.capture.takes(gpu.index, machine.stream_of(gpu))


def check_capture(machine: VirtualMachine, gpu: VirtualGpu | None = None, stream: int | None = None) -> None:
    """Whether work is done may not be asked during a capture, which fails by it; raises CUDA's error.

    `gpu` and `stream` are whose work it is: that of a captured stream may never be asked about, nor may that of its
    whole GPU, which has no `stream`. The rest is forbidden as the capture's `capture_error_mode` says; None for what
    has no GPU of its own, such as an event.
    """
    capture = machine.capture
    if capture is None:
        return
    captured = gpu is capture.gpu and (stream is None or capture.takes(capture.gpu.index, stream))
    if captured or capture.forbids():
        capture.failed = True
        raise cuda_errors.while_capturing()


def may_wait(machine: VirtualMachine, gpu: VirtualGpu | None = None) -> None:
    """The host is about to wait for all of a GPU, or, without one, for an event; raises CUDA's error in a capture."""
    if machine.capture is not None:
        check_capture(machine, gpu)


def wait_for_stream(machine: VirtualMachine, gpu: VirtualGpu, stream: int) -> None:
    """The same for a stream or a copy, of which torch's debug mode tells (c10/cuda/CUDAFunctions.cpp).

    Waits for all of a GPU and for events are not among them.
    """
    if machine.capture is not None:
        check_capture(machine, gpu, stream)
    if machine.sync_debug == WARN:
        _warn()
    elif machine.sync_debug == ERROR:
        raise RuntimeError(_WORDS)


def _warn() -> None:
    """Once for each line, as torch warns."""
    frame = nearest_outside()
    if frame is not None:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(_WORDS, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def synchronize(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int | None = None) -> None:
    """The host waits for a stream, or for all streams of a GPU; `name` is the call that made it wait."""
    if stream is None:
        may_wait(machine, gpu)
    else:
        wait_for_stream(machine, gpu, stream)
    began = machine.clock.host.now
    machine.clock.synchronize(gpu.index, stream)
    record_wait(machine, gpu, name, 0 if stream is None else stream, began)


def wait_for_mark(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int, mark: EventMarker) -> None:
    """The host waits until a stream has reached a mark, as for an event."""
    may_wait(machine)
    began = machine.clock.host.now
    machine.clock.wait_for_mark(gpu.index, mark)
    record_wait(machine, gpu, name, stream, began)


def record_wait(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int, began: int) -> None:
    """Write down that the host waited since `began`."""
    recorder = machine.recorder
    if recorder.enabled:
        now = machine.clock.host.now
        recorder.synchronise(name, gpu.name, stream=stream, launched=began, start=began, end=now)
