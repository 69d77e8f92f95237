"""Streams of a virtual GPU, as `torch.cuda` has them; `generic` has what all streams do."""

from __future__ import annotations

import ctypes
from typing import Any, cast

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.clock.timeline import WHOLE
from gpututor.devices.virtual.face import pools
from gpututor.devices.virtual.face.devices import gpu_of
from gpututor.devices.virtual.face.events import CudaEvent
from gpututor.devices.virtual.face.generic import Stream, make_current
from gpututor.devices.virtual.machine import active
from gpututor.devices.virtual.work.kernels import kernel_of_length

_OTHERS = "Streams of other libraries are not there: make one by torch.cuda.Stream()."


class CudaStream(Stream):
    """Stands in for `torch.cuda.Stream`."""

    _call = "torch.cuda.Stream"

    def __new__(cls, device: Any = None, priority: int = 0, **options: Any) -> Any:
        if "cuda" not in active().backends:
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        if options.get("stream_ptr"):
            raise errors.unsupported("torch.cuda.ExternalStream", _OTHERS)
        if "stream_id" in options:
            active().gpu(options.get("device_index", 0))
            return super().__new__(cls, **options)
        gpu = gpu_of(device)
        return cls._numbered(gpu, pools.next_number(gpu, priority))

    @property
    def cuda_stream(self) -> int:
        return self.native_handle

    @property
    def priority(self) -> int:
        return pools.priority_of(pools.number_of(self.stream_id))

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(the least, the most urgent) of those that PyTorch uses."""
        active().start()
        return 0, 1 - pools.PRIORITIES

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
    """This thread's current stream of a GPU, None for the current one."""
    gpu = gpu_of(device)
    return cast(CudaStream, CudaStream._numbered(gpu, active().stream_of(gpu)))


def default_stream(device: Any = None) -> CudaStream:
    return cast(CudaStream, CudaStream._numbered(gpu_of(device), 0))


def current_generic_stream(index: int) -> Stream:
    """What `torch.accelerator.current_stream` gives: not one of torch.cuda's own class."""
    gpu = gpu_of(index)
    return cast(Stream, Stream._numbered(gpu, active().stream_of(gpu)))


def set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    """Stands in for `torch.cuda._set_stream_by_id`, which `set_stream` and `StreamContext` call."""
    make_current(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


def current_stream_data(index: int) -> tuple[int, int, int]:
    """(stream_id, device_index, device_type) of the current stream, as C++ gives them."""
    found = current_stream(index)
    return found.stream_id, found.device_index, found.device_type


def default_stream_data(index: int) -> tuple[int, int, int]:
    found = default_stream(index)
    return found.stream_id, found.device_index, found.device_type


def current_raw_stream(index: int) -> int:
    return current_stream(index).cuda_stream


def is_current_stream_capturing() -> bool:
    """Whether work of this thread is recorded into a graph; asks for no GPU where there is none."""
    machine = active()
    capture = machine.capture
    return capture is not None and capture.takes(machine.current.index, machine.stream_of(machine.current))


def sleep(cycles: int) -> None:
    """Stands in for `torch.cuda._sleep`: a kernel of one thread that counts cycles of the GPU's highest clock."""
    gpu = gpu_of()
    nanoseconds = round(int(cycles) * 1e6 / gpu.spec.clock_khz)
    kernel_of_length(active(), gpu, "torch.cuda._sleep", nanoseconds, WHOLE // gpu.spec.multiprocessors)
