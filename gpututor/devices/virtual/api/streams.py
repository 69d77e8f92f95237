"""Streams and events of `torch` and `torch.cuda`, on the clock of a virtual GPU.

CPU streams and events do nothing, as in PyTorch.
"""

from __future__ import annotations

import ctypes
import sys
from functools import wraps
from itertools import count
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, execution
from gpututor.devices.virtual.api.devices import gpu_of
from gpututor.devices.virtual.clock.machine_clock import MachineClock
from gpututor.devices.virtual.clock.timeline import WHOLE, EventMarker
from gpututor.devices.virtual.execution import waits
from gpututor.devices.virtual.execution.launch import kernel_of_length
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active_machine
from gpututor.hardware.scenario import ACCELERATORS

_real_stream: Any = torch.Stream
CUDA = 1
"""The number of CUDA in `c10::DeviceType` (c10/core/DeviceType.h)."""
_real_event: Any = torch.Event
_handles = count(0x5700_0000_0000, 0x60)
_NS_PER_MS = 1_000_000
_ADVICE = "Events cannot be shared between processes."
_FSDP = "torch.distributed.fsdp."
_OTHERS = "Streams of other libraries are not supported: create one with torch.cuda.Stream()."


def requested_gpu(call: str, device: Any) -> VirtualGpu | None:
    """Return the GPU that `device` names, by default the current GPU; None if it has no streams, such as the CPU.

    Raises `NotImplementedError` for an accelerator that only reports itself available.
    """
    backends = active_machine().backends
    if device is None or isinstance(device, int):
        kind = next((kind for kind in ACCELERATORS if kind in backends), "cpu")
        index = device
    else:
        kind, index = torch.device(device).type, torch.device(device).index
    if kind == "cuda" and "cuda" in backends:
        return gpu_of(index)
    if kind in backends:
        raise cuda_errors.unsupported(call, f"The device {kind!r} is only reported as available: nothing runs on it.")
    return None


def _on_gpu_only(method: Any) -> Any:
    """Wrap a method: streams and events that are not on a virtual GPU use the real class's method instead."""
    name = method.__name__

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._on_gpu:
            return method(self, *args, **kwargs)
        real = _real_stream if isinstance(self, _real_stream) else _real_event
        return getattr(real, name)(self, *(value for value in args if value is not None), **kwargs)

    return call


class Stream(_real_stream):  # type: ignore[misc]
    """Replacement for `torch.Stream`, which is also the base class of `CudaStream`.

    A new stream is the next of its GPU's pool: see `waits`. `stream_id`, `device_index` and `device` are C++'s own.
    """

    _call = "torch.Stream"

    def __new__(cls, device: Any = None, *args: Any, priority: int = 0, **options: Any) -> Any:
        if "stream_id" in options or args:
            if args:
                options = {**dict(zip(("device_index", "device_type"), args, strict=False)), **options}
                options["stream_id"] = device
            return super().__new__(cls, **options)
        gpu = requested_gpu(cls._call, device)
        if gpu is None:
            return super().__new__(cls, *(() if device is None else (device,)), **options)
        return cls._numbered(gpu, waits.next_number(gpu, priority))

    @classmethod
    def _numbered(cls, gpu: VirtualGpu, number: int) -> Any:
        """Return the stream with that number on the clock."""
        return _real_stream.__new__(cls, stream_id=waits.id_of(number), device_index=gpu.index, device_type=CUDA)

    @property
    def _on_gpu(self) -> bool:
        return bool(self.device_type == CUDA)

    def _place(self) -> tuple[VirtualMachine, VirtualGpu, int]:
        """Return the machine, the GPU and the number of the stream on the clock."""
        machine = active_machine("stream")
        return machine, machine.gpu(self.device_index), waits.number_of(self.stream_id)

    @_on_gpu_only
    def query(self) -> bool:
        machine, gpu, number = self._place()
        waits.check_capture(machine, gpu, number)
        return machine.clock.is_idle(gpu.index, number)

    @_on_gpu_only
    def synchronize(self) -> None:
        machine, gpu, number = self._place()
        execution.synchronize(machine, gpu, f"{self._call}.synchronize", number)

    @_on_gpu_only
    def wait_event(self, event: Any) -> None:
        """Let later work of this stream wait for the event; the host does not wait."""
        event.wait(self)

    @_on_gpu_only
    def wait_stream(self, stream: Any) -> None:
        """Let later work of this stream wait for all earlier work of `stream`."""
        self.wait_event(stream.record_event())

    @_on_gpu_only
    def record_event(self, event: Any = None) -> Any:
        """Record an event, by default a new one, after all earlier work of this stream."""
        if event is None:
            event = self._new_event()
        event.record(self)
        return event

    def _new_event(self) -> Any:
        return Event("cuda")

    def is_capturing(self) -> bool:
        if not self._on_gpu:
            return False
        machine, gpu, number = self._place()
        return machine.capture is not None and machine.capture.includes(gpu.index, number)

    @property
    def native_handle(self) -> int:
        """The number that stands in for a `cudaStream_t`: 0 for the default stream."""
        return waits.handle_of(self.device_index, waits.number_of(self.stream_id))

    def __enter__(self) -> Any:
        if self._on_gpu:
            machine, gpu, _ = self._place()
            # A list: blocks may be nested, with one object.
            self.__dict__.setdefault("_before", []).append((machine.current.index, machine.stream_of(gpu)))
            make_current(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._on_gpu:
            machine, gpu, _ = self._place()
            device_index, number = self.__dict__["_before"].pop()
            machine.per_thread.choose_stream(gpu.index, number)
            machine.set_current(device_index)

    def __eq__(self, other: object) -> bool:
        return bool(_real_stream.__eq__(self, other)) if isinstance(other, _real_stream) else False

    def __hash__(self) -> int:
        return cast(int, _real_stream.__hash__(self))


Stream.__module__ = "torch"


def make_current(stream: Any) -> None:
    """Make `stream` and its GPU the current ones of this thread."""
    machine, gpu, number = stream._place()
    machine.per_thread.choose_stream(gpu.index, number)
    machine.set_current(gpu.index)


class Event(_real_event):  # type: ignore[misc]
    """Replacement for `torch.Event`, which is also the base class of `CudaEvent`.

    C++ sees an event of a virtual GPU as an event of the CPU. Recording an event again moves it, but earlier waits keep
    waiting for the old position.
    """

    _call = "torch.Event"
    _on_gpu = False
    _timing = False
    _clock: MachineClock | None = None
    _mark: EventMarker | None = None
    """The position at which it was recorded; None if it was not recorded."""
    _gpu: int = -1
    _stream: int = 0
    _handle: int = 0
    _captured = False
    """True if it was last recorded during a capture, as part of a graph."""

    def __new__(
        cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        given = () if device is None else (device,)
        if requested_gpu(cls._call, device) is None:
            return super().__new__(
                cls, *given, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
            )
        return cls._on_cuda(enable_timing)

    @classmethod
    def _on_cuda(cls, timing: bool) -> Any:
        self = _real_event.__new__(cls, "cpu")
        self._on_gpu, self._timing = True, bool(timing)
        return self

    @property
    def device(self) -> Any:
        if not self._on_gpu:
            return _real_event.device.__get__(self)
        return torch.device("cuda") if self._gpu < 0 else torch.device("cuda", self._gpu)

    @property
    def event_id(self) -> int:
        return self._handle

    @_on_gpu_only
    def record(self, stream: Any = None) -> None:
        """Record it after all earlier work of `stream`, None for the current one."""
        machine, gpu, number = self._requested_stream(stream)
        if self._gpu not in (-1, gpu.index):
            raise cuda_errors.event_of_another_device(self._gpu, gpu.index)
        capture = machine.capture
        if capture is not None and capture.includes(gpu.index, number):
            self._mark, self._captured = capture.record(number), True
        else:
            self._mark, self._captured = machine.clock.record(gpu.index, number), False
        self._clock, self._gpu, self._stream = machine.clock, gpu.index, number
        self._handle = self._handle or next(_handles)

    @_on_gpu_only
    def wait(self, stream: Any = None) -> None:
        """Let later work of `stream`, None for the current one, wait for this event; the host does not wait."""
        machine, gpu, number = self._requested_stream(stream)
        mark = self._place(machine)
        if mark is None:
            return
        capture = machine.capture
        if capture is not None and (self._captured or capture.includes(gpu.index, number)):
            capture.wait(gpu.index, number, mark)
        elif self._captured:
            raise cuda_errors.captured_event()
        else:
            machine.clock.wait_for(gpu.index, number, mark)

    @_on_gpu_only
    def query(self) -> bool:
        machine = active_machine("event")
        mark = self._recorded(machine)
        if mark is None:
            return True
        machine.check()
        waits.check_capture(machine)
        return machine.clock.is_reached(self._gpu, mark)

    @_on_gpu_only
    def synchronize(self) -> None:
        machine = active_machine("event")
        mark = self._recorded(machine)
        if mark is not None:
            execution.wait_for_mark(machine, machine.gpu(self._gpu), f"{self._call}.synchronize", self._stream, mark)

    @_on_gpu_only
    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to `end_event`. Raises torch's errors if there is no such time.

        Checks as `CUDAEvent::elapsed_time` (c10/cuda/CUDAEvent.h), in the order of 2.9 to 2.13.
        """
        machine = active_machine("event")
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        start, end = self._recorded(machine), end_event._recorded(machine)
        if start is None or end is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        if self._gpu != end_event._gpu:
            raise cuda_errors.invalid_resource_handle()
        return float(end.time - start.time) / _NS_PER_MS

    def ipc_handle(self) -> Any:
        raise cuda_errors.unsupported(f"{self._call}.ipc_handle", _ADVICE)

    @classmethod
    def from_ipc_handle(cls, *args: Any, **options: Any) -> Any:
        raise cuda_errors.unsupported(f"{cls._call}.from_ipc_handle", _ADVICE)

    def __repr__(self) -> str:
        if not self._on_gpu:
            return str(_real_event.__repr__(self))
        return (
            f"torch.Event device_type=cuda, device_index={self._gpu}, event_flag={int(self._timing)}, "
            f"event_id={self._handle}"
        )

    def _requested_stream(self, stream: Any) -> tuple[VirtualMachine, VirtualGpu, int]:
        machine = active_machine("event")
        if stream is None:
            gpu = gpu_of()
            return machine, gpu, machine.stream_of(gpu)
        return machine, machine.gpu(stream.device_index), waits.number_of(stream.stream_id)

    def _place(self, machine: VirtualMachine) -> EventMarker | None:
        """Return the position at which it was recorded. Raises `RuntimeError` for an event of another machine."""
        if self._mark is not None and self._clock is not machine.clock:
            raise cuda_errors.left_over_event()
        return self._mark

    def _recorded(self, machine: VirtualMachine) -> EventMarker | None:
        """Return an event's position, whose time is needed. Raises CUDA's error for an event in a graph."""
        mark = self._place(machine)
        if self._captured:
            raise cuda_errors.captured_event()
        return mark


class CudaEvent(Event):
    _call = "torch.cuda.Event"

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> Any:
        if external:
            raise cuda_errors.unsupported("torch.cuda.Event(external=True)")
        return cls._on_cuda(enable_timing)

    @property
    def device(self) -> Any:
        return None if self._gpu < 0 else torch.device("cuda", self._gpu)

    @property
    def cuda_event(self) -> int:
        return self._handle

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self._handle)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self._handle:#x}>" if self._handle else "<torch.cuda.Event uninitialized>"


for _kind, _module in ((Event, "torch"), (CudaEvent, "torch.cuda.streams")):
    _kind.__module__, _kind.__name__, _kind.__qualname__ = _module, "Event", "Event"


class CudaStream(Stream):
    _call = "torch.cuda.Stream"

    def __new__(cls, device: Any = None, priority: int = 0, **options: Any) -> Any:
        if "cuda" not in active_machine().backends:
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        if options.get("stream_ptr"):
            raise cuda_errors.unsupported("torch.cuda.ExternalStream", _OTHERS)
        if "stream_id" in options:
            active_machine().gpu(options.get("device_index", 0))
            return super().__new__(cls, **options)
        gpu = gpu_of(device)
        number = waits.next_number(gpu, priority)
        is_of_fsdp = sys._getframe(1).f_globals.get("__name__", "").startswith(_FSDP)
        of_fsdp = active_machine().clock.order.of_fsdp
        (of_fsdp.add if is_of_fsdp else of_fsdp.discard)((gpu.index, number))
        return cls._numbered(gpu, number)

    @property
    def cuda_stream(self) -> int:
        return self.native_handle

    @property
    def priority(self) -> int:
        return waits.priority_of(waits.number_of(self.stream_id))

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return (the least, the most urgent) priority that PyTorch uses."""
        active_machine().start()
        return 0, 1 - waits.PRIORITIES

    def _new_event(self) -> Any:
        return CudaEvent()

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaStream) and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


CudaStream.__module__, CudaStream.__name__, CudaStream.__qualname__ = "torch.cuda.streams", "Stream", "Stream"


def current_stream(device: Any = None) -> CudaStream:
    """Return this thread's current stream of a GPU, None for the current one."""
    gpu = gpu_of(device)
    return cast(CudaStream, CudaStream._numbered(gpu, active_machine().stream_of(gpu)))


def default_stream(device: Any = None) -> CudaStream:
    return cast(CudaStream, CudaStream._numbered(gpu_of(device), 0))


def current_generic_stream(index: int) -> Stream:
    """Return the current stream as a `torch.Stream`, for `torch.accelerator.current_stream`."""
    gpu = gpu_of(index)
    return cast(Stream, Stream._numbered(gpu, active_machine().stream_of(gpu)))


def set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    make_current(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


def current_stream_data(index: int) -> tuple[int, int, int]:
    """Return (stream_id, device_index, device_type) of the current stream, as C++ does."""
    stream = current_stream(index)
    return stream.stream_id, stream.device_index, stream.device_type


def default_stream_data(index: int) -> tuple[int, int, int]:
    stream = default_stream(index)
    return stream.stream_id, stream.device_index, stream.device_type


def current_raw_stream(index: int) -> int:
    return current_stream(index).cuda_stream


def is_current_stream_capturing() -> bool:
    """Return True if work of this thread is recorded into a graph, without starting CUDA."""
    machine = active_machine()
    capture = machine.capture
    return capture is not None and capture.includes(machine.current.index, machine.stream_of(machine.current))


def sleep(cycles: int) -> None:
    """Run a kernel of one thread that waits for a number of cycles at the GPU's highest clock."""
    gpu = gpu_of()
    nanoseconds = round(int(cycles) * 1e6 / gpu.spec.clock_khz)
    kernel_of_length(active_machine(), gpu, "torch.cuda._sleep", nanoseconds, WHOLE // gpu.spec.multiprocessors)
