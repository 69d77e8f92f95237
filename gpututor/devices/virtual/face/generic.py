"""`torch.Stream`: those of a virtual GPU put work on its clock; those of the CPU do nothing, as ever."""

from __future__ import annotations

from typing import Any, cast

import torch

from gpututor.devices.virtual import errors, work
from gpututor.devices.virtual.face import pools
from gpututor.devices.virtual.face.devices import gpu_of
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine, active
from gpututor.devices.virtual.work import permits

_real_stream: Any = torch.Stream
CUDA = 1
"""The number of CUDA among the types of devices (c10/core/DeviceType.h)."""


def gpu_meant(call: str, device: Any) -> VirtualGpu | None:
    """The GPU that a device means, None the current one; None for a device without streams of its own, as the CPU.

    Raises `NotImplementedError` for an accelerator that only reports itself available.
    """
    backends = active().backends
    if device is None or isinstance(device, int):
        kind = next((one for one in ("cuda", "mps", "xpu") if one in backends), "cpu")
        index = device
    else:
        found = torch.device(device)
        kind, index = found.type, found.index
    if kind == "cuda" and "cuda" in backends:
        return gpu_of(index)
    if kind in backends:
        raise errors.unsupported(call, "This machine only reports that it has one.")
    return None


class Stream(_real_stream):  # type: ignore[misc]
    """Stands in for `torch.Stream`, as its base class too.

    A new one is the next of its GPU's pool: see `pools`. `stream_id`, `device_index` and `device` are C++'s own.
    """

    _call = "torch.Stream"

    def __new__(cls, device: Any = None, *args: Any, priority: int = 0, **options: Any) -> Any:
        if "stream_id" in options or args:
            if args:
                options = {**dict(zip(("device_index", "device_type"), args, strict=False)), **options}
                options["stream_id"] = device
            return super().__new__(cls, **options)
        gpu = gpu_meant(cls._call, device)
        if gpu is None:
            return super().__new__(cls, *(() if device is None else (device,)), **options)
        return cls._numbered(gpu, pools.next_number(gpu, priority))

    @classmethod
    def _numbered(cls, gpu: VirtualGpu, number: int) -> Any:
        """The stream with that number on the clock."""
        return _real_stream.__new__(cls, stream_id=pools.id_of(number), device_index=gpu.index, device_type=CUDA)

    @property
    def _on_gpu(self) -> bool:
        return bool(self.device_type == CUDA)

    def _place(self) -> tuple[VirtualMachine, VirtualGpu, int]:
        """The machine, the GPU and the number of the stream on the clock."""
        machine = active("stream")
        return machine, machine.gpu(self.device_index), pools.number_of(self.stream_id)

    def query(self) -> bool:
        """Whether all work that it was given is done by now."""
        if not self._on_gpu:
            return bool(super().query())
        machine, gpu, number = self._place()
        permits.ask(machine, gpu, number)
        return machine.clock.is_idle(gpu.index, number)

    def synchronize(self) -> None:
        """The host waits for all work that it was given."""
        if not self._on_gpu:
            super().synchronize()
            return
        machine, gpu, number = self._place()
        work.wait(machine, gpu, f"{self._call}.synchronize", number)

    def wait_event(self, event: Any) -> None:
        """Later work of this stream waits for the event; the host does not."""
        if not self._on_gpu:
            super().wait_event(event)
            return
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Later work of this stream waits for all that `stream` has been given so far."""
        if not self._on_gpu:
            super().wait_stream(stream)
            return
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one unless it is given, after all work that this stream has been given."""
        if not self._on_gpu:
            return super().record_event(event)
        if event is None:
            event = self._new_event()
        event.record(self)
        return event

    def _new_event(self) -> Any:
        from gpututor.devices.virtual.face.events import GenericEvent

        return GenericEvent("cuda")

    def is_capturing(self) -> bool:
        if not self._on_gpu:
            return False
        machine, gpu, number = self._place()
        return machine.capture is not None and machine.capture.takes(gpu.index, number)

    @property
    def native_handle(self) -> int:
        """What stands for a `cudaStream_t`: 0 for the default stream, else a number of its own."""
        return pools.handle_of(self.device_index, pools.number_of(self.stream_id))

    def __enter__(self) -> Any:
        if self._on_gpu:
            machine, gpu, _ = self._place()
            before = (machine.current.index, machine.stream_of(gpu))
            # Blocks may be nested, with one object.
            self.__dict__.setdefault("_before", []).append(before)
            make_current(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._on_gpu:
            machine, gpu, _ = self._place()
            device_index, number = self.__dict__["_before"].pop()
            set_number(machine, gpu, number)
            machine.set_current(device_index)

    def __eq__(self, other: object) -> bool:
        return bool(_real_stream.__eq__(self, other)) if isinstance(other, _real_stream) else False

    def __hash__(self) -> int:
        return cast(int, _real_stream.__hash__(self))


Stream.__module__ = "torch"


def make_current(stream: Any) -> None:
    """Work of this thread goes to `stream` from now on, and its GPU is the current one."""
    machine, gpu, number = stream._place()
    set_number(machine, gpu, number)
    machine.set_current(gpu.index)


def set_number(machine: VirtualMachine, gpu: VirtualGpu, number: int) -> None:
    """Make the stream with that number the current one of a GPU, for this thread."""
    machine.per_thread.streams[gpu.index] = number
