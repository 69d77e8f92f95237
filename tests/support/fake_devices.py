"""A device that works on tensors of the meta device, behind a clock that only the tests move."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.real.backends import Backend

KERNEL_NS, LAUNCH_NS = 50_000, 2_000
AHEAD_NS = 7_000_000_000
"""Lead of the device's clock over the host's."""


class Clock:
    """The host's clock, of which each reading takes 10 ns."""

    def __init__(self) -> None:
        self.time = 1_000_000

    def __call__(self) -> int:
        self.time += 10
        return self.time


class Event:
    def __init__(self) -> None:
        self.time: int | None = None


class Device(Backend):
    """A device of kind `meta`: each stream runs its work in order, and streams overlap."""

    granule = 512
    elapsed_waits = False

    def __init__(self, clock: Clock) -> None:
        self.kind = "meta"
        self.clock = clock
        self.events: list[Event] = []
        self.busy_until: dict[int, int] = {}
        self.current_stream = 0
        self.capturing = False
        self.broken = False
        self.has_events = True
        self.synchronized = 0
        self.waited_for = 0
        self.bytes = 0
        self.retries = 0

    def current(self) -> int:
        return 0

    def event(self) -> Event | None:
        if not self.has_events:
            return None
        made = Event()
        self.events.append(made)
        return made

    def record(self, event: Event, stream: int) -> None:
        self._check()
        assert not self.capturing, "an event in a graph"
        event.time = max(self.clock.time, self.busy_until.get(stream, 0)) + AHEAD_NS

    def is_reached(self, event: Event) -> bool:
        self._check()
        assert not self.capturing, "an event that is asked during a capture"
        assert event.time is not None
        return event.time - AHEAD_NS <= self.clock.time

    def wait_for(self, event: Event) -> None:
        self._check()
        assert event.time is not None
        self.waited_for += 1
        self.clock.time = max(self.clock.time, event.time - AHEAD_NS)

    def elapsed_ms(self, earlier: Event, later: Event) -> float:
        assert earlier.time is not None
        assert later.time is not None
        return (later.time - earlier.time) / 1e6

    def stream(self, index: int) -> tuple[int, int]:
        return self.current_stream, self.current_stream

    def number_of(self, index: int, stream: Any) -> int:
        return int(getattr(stream, "number", 0))

    def synchronize(self, index: int) -> None:
        self._check()
        self.synchronized += 1
        self.clock.time = max(self.clock.time, *self.busy_until.values(), 0)

    def is_capturing(self) -> bool:
        return self.capturing

    def count(self) -> int:
        return 1

    def figures(self, index: int) -> tuple[int, int]:
        return self.bytes, self.retries

    def reserved(self, index: int) -> int:
        return self.bytes

    def work(self, duration: int) -> None:
        """Launch a kernel on the current stream."""
        self._check()
        self.clock.time += LAUNCH_NS
        if not self.capturing:
            before = max(self.clock.time, self.busy_until.get(self.current_stream, 0))
            self.busy_until[self.current_stream] = before + duration

    def _check(self) -> None:
        if self.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")


class Working(TorchDispatchMode):
    """A mode below the observer: operators on meta tensors keep the device busy, and reads wait for it."""

    def __init__(self, device: Device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device
        self.fails: BaseException | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.fails is not None:
            raise self.fails
        on_device = any(isinstance(argument, torch.Tensor) and argument.device.type == "meta" for argument in args)
        name = func.overloadpacket.__name__
        if on_device and (name == "_local_scalar_dense" or (name == "_to_copy" and "device" in kwargs)):
            self.device.work(KERNEL_NS)
            self.device.synchronize(0)
            return 1.0 if name == "_local_scalar_dense" else torch.ones(args[0].shape)
        if on_device and name == "nonzero":
            self.device.work(KERNEL_NS)
            self.device.synchronize(0)
            return torch.ops.aten.empty.memory_format((2, 1), dtype=torch.int64, device="meta")
        out = func(*args, **kwargs)
        if isinstance(out, torch.Tensor) and out.device.type == "meta":
            if name in ("empty", "view", "slice"):
                self.device.bytes += out.nbytes if name == "empty" else 0
            else:
                self.device.bytes += out.nbytes
                self.device.work(KERNEL_NS)
        else:
            self.device.clock.time += LAUNCH_NS
        return out
