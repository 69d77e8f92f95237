"""Waits of the host, captures that forbid them, torch's sync debug mode, and the numbers of streams.

PyTorch has 32 streams for each priority of a GPU (c10/cuda/CUDAStream.cpp): the 33rd stream is the first one again. On
the clock and in the trace, stream 0 is the default stream. Streams 1 to 32 have priority 0, 33 to 64 priority -1, and
so on.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine

STREAMS_PER_POOL = 32
PRIORITIES = 4
"""Priorities of CUDA that PyTorch uses: 0 to -3 (max_compile_time_stream_priorities)."""
WARN, ERROR = 1, 2
_SYNC_MESSAGE = "called a synchronizing CUDA operation"
_TYPE_BITS = 4
_HANDLES = 0x5600_0000_0000
_handed_out: WeakKeyDictionary[VirtualGpu, list[int]] = WeakKeyDictionary()


def next_number(gpu: VirtualGpu, priority: int) -> int:
    """Return the next stream in the pool of that priority; raise torch's error for a priority above 0."""
    if priority > 0:
        raise RuntimeError(f"Expected cuda stream priority to be less than or equal to 0, got {priority}")
    pool = min(-priority, PRIORITIES - 1)
    handed_out = _handed_out.setdefault(gpu, [0] * PRIORITIES)
    turn = handed_out[pool]
    handed_out[pool] = turn + 1
    return 1 + pool * STREAMS_PER_POOL + turn % STREAMS_PER_POOL


def priority_of(number: int) -> int:
    """Return the priority of a stream: 0, or less for a more urgent stream."""
    return 0 if number == 0 else -((number - 1) // STREAMS_PER_POOL)


def id_of(number: int) -> int:
    """Return the `stream_id`: 5 bits for the index in the pool, 4 for the priority, a final 1 (Note [StreamId])."""
    if number == 0:
        return 0
    pool, place = divmod(number - 1, STREAMS_PER_POOL)
    return place << (_TYPE_BITS + 1) | (pool + 1) << 1 | 1


def number_of(stream_id: int) -> int:
    """Return the number on the clock; raise `NotImplementedError` for the id of another library's stream."""
    if stream_id == 0:
        return 0
    pool, place = (stream_id >> 1 & 0xF) - 1, stream_id >> (_TYPE_BITS + 1)
    if not stream_id & 1 or not 0 <= pool < PRIORITIES or place >= STREAMS_PER_POOL:
        raise cuda_errors.unsupported("streams of other libraries", "Create streams with torch.cuda.Stream().")
    return 1 + pool * STREAMS_PER_POOL + place


def handle_of(device_index: int, number: int) -> int:
    """Return a unique number in place of a `cudaStream_t`; 0 for the default stream."""
    return _HANDLES + (device_index << 20) + (number << 8) if number else 0


def is_captured(machine: VirtualMachine, gpu: VirtualGpu) -> bool:
    """Return True if this thread's work on `gpu` is being captured in a graph."""
    return machine.capture is not None and machine.capture.includes(gpu.index, machine.stream_of(gpu))


def check_capture(machine: VirtualMachine, gpu: VirtualGpu | None = None, stream: int | None = None) -> None:
    """Fail the capture and raise CUDA's error if it forbids a query or wait for a stream.

    Without `stream`, the query is for all of `gpu`; without `gpu`, it is for an event or the like. A captured stream
    and its GPU may never be queried. `capture_error_mode` decides about all other queries.
    """
    capture = machine.capture
    if capture is None:
        return
    captured = gpu is capture.gpu and (stream is None or capture.includes(capture.gpu.index, stream))
    if captured or capture.forbids():
        capture.failed = True
        raise cuda_errors.while_capturing()


def wait_for_stream(machine: VirtualMachine, gpu: VirtualGpu, stream: int) -> None:
    """Check that a capture and torch's sync debug mode allow a wait for a stream or a copy.

    Warn or raise if they do not. The debug mode ignores waits for events and for a whole GPU
    (c10/cuda/CUDAFunctions.cpp).
    """
    if machine.capture is not None:
        check_capture(machine, gpu, stream)
    if machine.sync_debug == ERROR:
        raise RuntimeError(_SYNC_MESSAGE)
    if machine.sync_debug == WARN:
        cuda_errors.warn_at_caller(_SYNC_MESSAGE)


def synchronize(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int | None = None) -> None:
    """Make the host wait for a stream, or for all streams of a GPU, in a call of `name`."""
    if stream is None:
        check_capture(machine, gpu)
    else:
        wait_for_stream(machine, gpu, stream)
    began = machine.clock.host.now
    machine.clock.synchronize(gpu.index, stream)
    record_wait(machine, gpu, name, 0 if stream is None else stream, began)


def wait_for_mark(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int, mark: EventMarker) -> None:
    """Make the host wait until a stream has reached `mark`, in a call of `name`."""
    check_capture(machine)
    began = machine.clock.host.now
    machine.clock.wait_for_mark(gpu.index, mark)
    record_wait(machine, gpu, name, stream, began)


def record_wait(machine: VirtualMachine, gpu: VirtualGpu, name: str, stream: int, began: int) -> None:
    """Record that the host has waited since `began`."""
    recorder = machine.recorder
    if recorder.enabled:
        now = machine.clock.host.now
        recorder.synchronize(name, gpu.name, stream=stream, launched=began, start=began, end=now)
