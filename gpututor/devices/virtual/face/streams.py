"""Streams of a virtual GPU: one for each, so far."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.face.devices import gpu_of
from gpututor.devices.virtual.machine import VirtualGpu, active


class DefaultStream:
    """The one stream of each virtual GPU so far: work runs in the order in which it is launched."""

    def __init__(self, gpu: VirtualGpu) -> None:
        self.device = gpu.device
        self.device_index = gpu.index
        self.stream_id = 0
        self.cuda_stream = 0
        self._before: list[int] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DefaultStream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        active().recorder.synchronise("torch.cuda.Stream.synchronize", str(self.device))

    def __enter__(self) -> DefaultStream:
        machine = active()
        # Blocks may be nested, with one object.
        self._before.append(machine.per_thread.device_index)
        machine.set_current(self.device_index)
        return self

    def __exit__(self, *exception: Any) -> None:
        active().set_current(self._before.pop())

    def wait_stream(self, stream: Any) -> None:
        """There is one stream: it is in order already."""

    def __getattr__(self, name: str) -> Any:
        raise errors.unsupported(f"torch.cuda.Stream.{name}")

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream=0x0>"


def current_stream(device: Any = None) -> DefaultStream:
    return DefaultStream(gpu_of(device))


def stream(stream: Any) -> AbstractContextManager[Any]:
    """Stands in for `torch.cuda.stream`: None changes nothing, as on CUDA, and there is no other than the GPU's own."""
    if stream is None:
        return nullcontext()
    if isinstance(stream, DefaultStream):
        return stream
    raise errors.unsupported("torch.cuda.stream")


def is_current_stream_capturing() -> bool:
    return False
