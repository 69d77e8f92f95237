"""`torch.cuda.Event` and `torch.Event`: marks in a stream of a virtual GPU; those of the CPU do nothing, as ever."""

from __future__ import annotations

import ctypes
from itertools import count
from typing import Any

import torch

from gpututor.devices.virtual import errors, work
from gpututor.devices.virtual.clock.clock import MachineClock
from gpututor.devices.virtual.clock.timeline import Mark
from gpututor.devices.virtual.face import pools
from gpututor.devices.virtual.face.devices import gpu_of
from gpututor.devices.virtual.face.generic import gpu_meant
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active
from gpututor.devices.virtual.work import permits

_real_event: Any = torch.Event
_handles = count(0x5700_0000_0000, 0x60)
_NS_PER_MS = 1_000_000
_ADVICE = "Events cannot be shared between processes."


class GenericEvent(_real_event):  # type: ignore[misc]
    """Stands in for `torch.Event`, as its base class too: C++ takes a virtual GPU's for one of the CPU.

    Recording it again forgets where it was; who waits for it, waits for where it was then.
    """

    _call = "torch.Event"
    _on_gpu = False
    _timing = False
    _clock: MachineClock | None = None
    _mark: Mark | None = None
    """Where it was recorded; None before."""
    _gpu: int = -1
    _stream: int = 0
    _handle: int = 0
    _captured = False
    """Whether it was last recorded in a capture, as part of a graph."""

    def __new__(
        cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        given = () if device is None else (device,)
        if gpu_meant(cls._call, device) is None:
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

    def record(self, stream: Any = None) -> None:
        """Mark the place after all work that `stream`, None for the current one, has been given."""
        if not self._on_gpu:
            super().record(*(() if stream is None else (stream,)))
            return
        machine, gpu, number = self._stream_meant(stream)
        if self._gpu not in (-1, gpu.index):
            raise errors.event_of_another_device(self._gpu, gpu.index)
        capture = machine.capture
        if capture is not None and capture.takes(gpu.index, number):
            self._mark, self._captured = capture.record(number), True
        else:
            self._mark, self._captured = machine.clock.record(gpu.index, number), False
        self._clock, self._gpu, self._stream = machine.clock, gpu.index, number
        self._handle = self._handle or next(_handles)

    def wait(self, stream: Any = None) -> None:
        """Later work of `stream`, None for the current one, waits for this event; the host does not."""
        if not self._on_gpu:
            super().wait(*(() if stream is None else (stream,)))
            return
        machine, gpu, number = self._stream_meant(stream)
        mark = self._place(machine)
        if mark is None:
            return
        capture = machine.capture
        if capture is not None and (self._captured or capture.takes(gpu.index, number)):
            capture.wait(gpu.index, number, mark)
        elif self._captured:
            raise errors.captured_event()
        else:
            machine.clock.wait_for(gpu.index, number, mark)

    def query(self) -> bool:
        """Whether all work before it is done by now; true where it was never recorded."""
        if not self._on_gpu:
            return bool(super().query())
        machine = active("event")
        mark = self._recorded(machine)
        if mark is None:
            return True
        permits.ask(machine)
        return machine.clock.is_reached(self._gpu, mark)

    def synchronize(self) -> None:
        """The host waits until all work before it is done."""
        if not self._on_gpu:
            super().synchronize()
            return
        machine = active("event")
        mark = self._recorded(machine)
        if mark is not None:
            work.wait_for_mark(machine, machine.gpu(self._gpu), f"{self._call}.synchronize", self._stream, mark)

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to `end_event`; raises torch's errors where there is no such time.

        As `CUDAEvent::elapsed_time` (c10/cuda/CUDAEvent.h); 2.9 to 2.13 ask in this order.
        """
        if not self._on_gpu:
            return float(super().elapsed_time(end_event))
        machine = active("event")
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        start, end = self._recorded(machine), end_event._recorded(machine)
        if start is None or end is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        if self._gpu != end_event._gpu:
            raise errors.invalid_resource_handle()
        return float(end.time - start.time) / _NS_PER_MS

    def ipc_handle(self) -> Any:
        raise errors.unsupported(f"{self._call}.ipc_handle", _ADVICE)

    @classmethod
    def from_ipc_handle(cls, *args: Any, **options: Any) -> Any:
        raise errors.unsupported(f"{cls._call}.from_ipc_handle", _ADVICE)

    def __repr__(self) -> str:
        if not self._on_gpu:
            return str(_real_event.__repr__(self))
        return (
            f"torch.Event device_type=cuda, device_index={self._gpu}, event_flag={int(self._timing)}, "
            f"event_id={self._handle}"
        )

    def _stream_meant(self, stream: Any) -> tuple[VirtualMachine, VirtualGpu, int]:
        machine = active("event")
        if stream is None:
            gpu = gpu_of()
            return machine, gpu, machine.stream_of(gpu)
        return machine, machine.gpu(stream.device_index), pools.number_of(stream.stream_id)

    def _place(self, machine: VirtualMachine) -> Mark | None:
        """Where it was recorded; raises `RuntimeError` for another machine's."""
        if self._mark is not None and self._clock is not machine.clock:
            raise errors.left_over_event()
        return self._mark

    def _recorded(self, machine: VirtualMachine) -> Mark | None:
        """The same, for who asks about its time: one that is part of a graph has none."""
        mark = self._place(machine)
        if self._captured:
            raise errors.captured_event()
        return mark


class CudaEvent(GenericEvent):
    """Stands in for `torch.cuda.Event`."""

    _call = "torch.cuda.Event"

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> Any:
        if external:
            raise errors.unsupported("torch.cuda.Event(external=True)")
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


for _kind, _module in ((GenericEvent, "torch"), (CudaEvent, "torch.cuda.streams")):
    _kind.__module__, _kind.__name__, _kind.__qualname__ = _module, "Event", "Event"
