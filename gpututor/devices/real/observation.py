"""The state of an observation: stopwatches, memory, graphs, and threads that are not observed."""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import torch

from gpututor.devices.real.backends import Backend, backends
from gpututor.devices.real.timers import DeviceStopwatch, HostStopwatch, Stopwatch
from gpututor.devices.recorder import NOWHERE, Place, Recorder
from gpututor.trace.events import GRAPH_REPLAY, Kind

_REQUESTED = re.compile(r"Tried to allocate ([\d.]+) (bytes|[KMGT]iB)")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def requested_bytes(message: str) -> int:
    """Return the size in the message of an out-of-memory error, rounded as there; 0 if there is none."""
    match = _REQUESTED.search(message)
    return round(float(match[1]) * _UNITS[match[2]]) if match else 0


class Captured:
    """The bytes and FLOPs of a graph, as seen during its capture."""

    __slots__ = ("device", "flops", "size_bytes")

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.size_bytes = 0
        self.flops = 0.0


class Observation:
    """State that the mode and the watched calls share."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        times: bool = True,
        memory: bool = True,
        known: Mapping[str, Backend] | None = None,
        clock_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        """`known` has the backends by kind, by default this machine's; `clock_ns` is the host's clock."""
        self.recorder = recorder
        self.backends = backends() if known is None else known
        self._times = times
        self._clock_ns = clock_ns
        self._began = clock_ns()
        self.watch_loaded: Callable[[], None] = lambda: None
        """Watches calls of modules that torch has loaded since."""
        self._records_memory = memory
        # By the id of the storage's Python object, which lives as long as the storage.
        self._storages: dict[int, weakref.ref[Any]] = {}
        self._allocated: dict[str, int] = {}
        self._watches: dict[tuple[str, int], Stopwatch] = {("cpu", 0): HostStopwatch(self.now)}
        self._retries: dict[str, int] = {}
        self._open: Captured | None = None
        self._unobserved: set[int] = set()
        self._thread = threading.get_ident()
        self.reads = 0
        """Number of reads of single elements that the mode has seen."""
        self._graphs: weakref.WeakKeyDictionary[Any, Captured] = weakref.WeakKeyDictionary()

    def place(self) -> Place | None:
        """Return the line that launched this thread's work; None if it is the line that is running.

        Autograd's threads work for the line at which the observed thread waits for them.
        """
        if threading.get_ident() == self._thread:
            return None
        place = self.recorder.place()
        waiting = sys._current_frames().get(self._thread)
        return self.recorder.place(0, waiting) if place == NOWHERE and waiting is not None else place

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        """Stop observing this thread: the work is internal to PyTorch, or is recorded as part of another event."""
        thread = threading.get_ident()
        if thread in self._unobserved:
            yield
            return
        self._unobserved.add(thread)
        try:
            yield
        finally:
            self._unobserved.discard(thread)

    def is_unobserved(self) -> bool:
        return bool(self._unobserved) and threading.get_ident() in self._unobserved

    def now(self) -> int:
        """Return the host's time, in nanoseconds since the recording began."""
        return self._clock_ns() - self._began

    def index_of(self, device: torch.device) -> int:
        """Return the device's number; a device without a number is its kind's current device."""
        index: int | None = device.index
        backend = self.backends.get(device.type)
        return backend.current() if index is None and backend is not None else index or 0

    def name_of(self, device: torch.device) -> str:
        """Return `cpu`, or a name such as `cuda:0`."""
        return "cpu" if device.type == "cpu" else f"{device.type}:{self.index_of(device)}"

    def watch_of(self, device: torch.device) -> Stopwatch | None:
        """Return the device's stopwatch; None for the meta device and for a device that does not exist."""
        index = 0 if device.type == "cpu" else self.index_of(device)
        watch = self._watches.get((device.type, index))
        if watch is not None:
            return watch
        backend = self.backends.get(device.type)
        if (backend is None and device.type == "meta") or (backend is not None and index >= backend.count()):
            return None
        watch = Stopwatch(self.now)
        if backend is not None:
            watch = DeviceStopwatch(
                backend, index, self.now, self.recorder.set_times, timed=self._times, is_capturing=self.is_capturing
            )
        return self._watches.setdefault((device.type, index), watch)

    def waited(self, name: str, device: torch.device, stream: int, began: int, place: Place | None = None) -> None:
        """Record that the host waited for the device since `began`."""
        where = self.name_of(device)
        self.recorder.synchronize(name, where, stream=stream, launched=began, start=began, end=self.now(), place=place)
        watch = self.watch_of(device)
        if watch is not None:
            watch.host_waited()

    def is_capturing(self) -> bool:
        """Return True if any thread captures a graph."""
        return self._open is not None

    def capture_began(self, device: torch.device) -> None:
        self._open = Captured(device)

    def capture_ended(self, graph: Any) -> None:
        """End the capture, and store it for `graph`; `graph` is None if the capture failed."""
        if self._open is not None and graph is not None:
            self._graphs[graph] = self._open
        self._open = None

    def captured(self, device: torch.device, size_bytes: int, flops: float) -> bool:
        """Return True if the last launch was captured into a graph instead of run; add it to the graph."""
        graph, backend = self._open, self.backends.get(device.type)
        if graph is None or backend is None or not backend.is_capturing():
            return False
        graph.size_bytes += size_bytes
        graph.flops += flops
        return True

    def replay(self, graph: Any, device: torch.device, run: Callable[[], Any]) -> Any:
        """Run a graph once, and record it as one kernel."""
        known = self._graphs.get(graph) or Captured(device)
        return self.launch(GRAPH_REPLAY, known.device, known.size_bytes, run, flops=known.flops)

    def launch(
        self,
        name: str,
        device: torch.device,
        size_bytes: int,
        run: Callable[[], Any],
        *,
        flops: float = 0.0,
        timed: bool = True,
    ) -> Any:
        """Launch a kernel that is not an operator, and record it; with times only if `timed`."""
        watch = self.watch_of(device)
        if watch is None or not self.recorder.enabled or self.is_unobserved():
            return run()
        lap = watch.start()
        try:
            with self.unobserved():
                out = run()
        except BaseException:
            watch.drop(lap)
            raise
        if self.captured(device, size_bytes, flops):
            watch.drop(lap)
            return out
        if not timed:
            watch.drop(lap)
        watch.stop(lap)
        where, place = self.name_of(device), self.place()
        row = self.recorder.kernel(
            name, where, size_bytes, stream=lap.stream, flops=flops, launched=lap.launched, place=place
        )
        watch.keep(lap, row)
        return out

    def record_allocation(self, tensor: torch.Tensor, stream: int, place: Place | None) -> None:
        """Record the allocation of a new tensor's memory, and later its release; ignore views of a known storage.

        The total after an allocation is the allocator's own figure, which includes workspaces. The total after a
        release is that figure minus the storage's bytes, because a destructor cannot call the allocator.
        """
        backend = self.backends.get(tensor.device.type)
        if not self._records_memory or backend is None or tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        identity, recorder = id(storage), self.recorder
        if identity in self._storages or not storage.nbytes():
            return
        device = self.name_of(tensor.device)
        size = -(-storage.nbytes() // backend.granule) * backend.granule

        def freed(_: object) -> None:
            if self._storages.pop(identity, None) is not None and recorder.enabled:
                self._allocated[device] = left = max(0, self._allocated[device] - size)
                recorder.memory(Kind.FREE, device, size, left, launched=self.now(), stream=stream, partner=row)

        self._storages[identity] = weakref.ref(storage, freed)
        allocated, retries = backend.figures(self.index_of(tensor.device))
        self._allocated[device] = allocated
        if retries > self._retries.setdefault(device, retries):
            self.returned_memory(tensor.device, self.now(), place)
        self._retries[device] = retries
        row = recorder.memory(Kind.ALLOCATE, device, size, allocated, launched=self.now(), stream=stream, place=place)

    def returned_memory(self, device: torch.device, began: int, place: Place | None = None) -> None:
        """Record that the allocator returned memory to the driver, which waits for all work of the device."""
        self.waited("cudaFree", device, 0, began, place)

    def record_out_of_memory(
        self, device: torch.device, error: BaseException, stream: int, place: Place | None
    ) -> None:
        """Record that an operator ran out of memory."""
        backend = self.backends.get(device.type)
        if self._records_memory and backend is not None:
            name, size = self.name_of(device), requested_bytes(str(error))
            allocated, self._retries[name] = backend.figures(self.index_of(device))
            self.recorder.memory(
                Kind.OUT_OF_MEMORY, name, size, allocated, launched=self.now(), stream=stream, place=place
            )

    def settle(self) -> None:
        """Wait for the devices that have worked, and read their times."""
        for watch in list(self._watches.values()):
            watch.settle()

    def end(self) -> None:
        """Read the last times, and stop recording releases of memory."""
        self.settle()
        self._storages.clear()
