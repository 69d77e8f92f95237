"""One observation of real devices: their stopwatches, their memory, the graphs that are captured."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import torch

from gpututor.devices.places import Place
from gpututor.devices.real.backends import Backend, backends
from gpututor.devices.real.memory import Memory
from gpututor.devices.real.stopwatches import DeviceStopwatch, HostStopwatch, LaunchStopwatch, Stopwatch
from gpututor.devices.recorder import Recorder

GRAPH = "cuda graph"
"""The name of a replay: one kernel, as no event can look into a graph."""


class Captured:
    """What one graph does, as far as one can see when it is captured."""

    __slots__ = ("device", "flops", "size_bytes")

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.size_bytes = 0
        self.flops = 0.0


class Observation:
    """What watching shares between the mode and the watched calls."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        times: bool = True,
        memory: bool = True,
        known: Mapping[str, Backend] | None = None,
        clock_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        """`known` are the backends, by kind, those of this machine by default; `clock_ns` is the host's clock."""
        self.recorder = recorder
        self.backends = backends() if known is None else known
        self._times = times
        self._clock_ns = clock_ns
        self._began = clock_ns()
        self._memory = Memory(recorder, self.now) if memory else None
        self._watches: dict[tuple[str, int], Stopwatch] = {("cpu", 0): HostStopwatch(self.now)}
        self._open: Captured | None = None
        self._graphs: weakref.WeakKeyDictionary[Any, Captured] = weakref.WeakKeyDictionary()

    def now(self) -> int:
        """The host's time, in nanoseconds since the recording began."""
        return self._clock_ns() - self._began

    def index_of(self, device: torch.device) -> int:
        """The device's number; a device without one is its kind's current one."""
        index: int | None = device.index
        backend = self.backends.get(device.type)
        return backend.current() if index is None and backend is not None else index or 0

    def name_of(self, device: torch.device) -> str:
        """`cpu`, or such as `cuda:0`."""
        return "cpu" if device.type == "cpu" else f"{device.type}:{self.index_of(device)}"

    def watch_of(self, device: torch.device) -> Stopwatch | None:
        """The device's stopwatch; None for the meta device, where nothing is done."""
        index = 0 if device.type == "cpu" else self.index_of(device)
        found = self._watches.get((device.type, index))
        if found is not None:
            return found
        backend = self.backends.get(device.type)
        if backend is None and device.type == "meta":
            return None
        made: Stopwatch = LaunchStopwatch(self.now)
        if backend is not None:
            made = DeviceStopwatch(
                backend, index, self.now, self.recorder.set_times, timed=self._times, is_capturing=self.is_capturing
            )
        return self._watches.setdefault((device.type, index), made)

    def waited(self, name: str, device: torch.device, stream: int, began: int) -> None:
        """The host waited for the device since `began`."""
        place = self.name_of(device)
        self.recorder.synchronise(name, place, stream=stream, launched=began, start=began, end=self.now())
        watch = self.watch_of(device)
        if watch is not None:
            watch.rest()

    def is_capturing(self) -> bool:
        """Whether a graph is being captured, in any thread."""
        return self._open is not None

    def capture_began(self, device: torch.device) -> None:
        self._open = Captured(device)

    def capture_ended(self, graph: Any) -> None:
        """`graph` is None where the capture failed."""
        if self._open is not None and graph is not None:
            self._graphs[graph] = self._open
        self._open = None

    def captured(self, device: torch.device, size_bytes: int, flops: float) -> bool:
        """Whether what was just launched became part of a graph, and did not run."""
        graph, backend = self._open, self.backends.get(device.type)
        if graph is None or backend is None or not backend.is_capturing():
            return False
        graph.size_bytes += size_bytes
        graph.flops += flops
        return True

    def replay(self, graph: Any, device: torch.device, run: Callable[[], Any]) -> Any:
        """Run a graph once: one kernel."""
        known = self._graphs.get(graph) or Captured(device)
        watch = self.watch_of(known.device)
        if watch is None or not self.recorder.enabled:
            return run()
        lap = watch.start()
        try:
            out = run()
        except BaseException:
            watch.drop(lap)
            raise
        watch.stop(lap)
        name = self.name_of(known.device)
        row = self.recorder.kernel(
            GRAPH, name, known.size_bytes, stream=lap.stream, flops=known.flops, launched=lap.launched
        )
        watch.keep(lap, row)
        return out

    def made(self, tensor: torch.Tensor, stream: int, place: Place | None) -> None:
        """An operator gave a tensor of its own."""
        backend = self.backends.get(tensor.device.type)
        if self._memory is not None and backend is not None and tensor.layout is torch.strided:
            index = self.index_of(tensor.device)
            self._memory.made(backend, index, self.name_of(tensor.device), tensor, stream, place)

    def lacked(self, device: torch.device, error: BaseException, stream: int, place: Place | None) -> None:
        """An operator was refused memory."""
        backend = self.backends.get(device.type)
        if self._memory is not None and backend is not None:
            self._memory.lacked(backend, self.index_of(device), self.name_of(device), error, stream, place)

    def settle(self) -> None:
        """Wait for the devices that have worked, and find out when."""
        for watch in list(self._watches.values()):
            watch.settle()

    def end(self) -> None:
        """The last times are found out; what memory does from now on is not written down."""
        self.settle()
        if self._memory is not None:
            self._memory.forget()
