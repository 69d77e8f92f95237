"""The observer of a real device: operators, memory and waits."""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpututor.devices.real.backends import Backend, backends
from gpututor.devices.real.timers import DeviceStopwatch, HostStopwatch, Lap, Stopwatch
from gpututor.devices.recorder import NOWHERE, Place, Recorder
from gpututor.devices.virtual.execution.prices import flops_of
from gpututor.devices.virtual.operator_registry import Operator, operator_of
from gpututor.devices.virtual.operators.operands import bytes_of
from gpututor.trace.events import Kind, compute_dtype

_REQUESTED = re.compile(r"Tried to allocate ([\d.]+) (bytes|[KMGT]iB)")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def requested_bytes(message: str) -> int:
    """Return the bytes that an out-of-memory error names, as exactly as it does; 0 if it names none."""
    match = _REQUESTED.search(message)
    return round(float(match[1]) * _UNITS[match[2]]) if match else 0


GRAPH = "cuda graph"
"""The name of a replay: one kernel, as events cannot look into a graph."""


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
        """`known` are the backends, by kind, those of this machine by default; `clock_ns` is the host's clock."""
        self.recorder = recorder
        self.backends = backends() if known is None else known
        self._times = times
        self._clock_ns = clock_ns
        self._began = clock_ns()
        self._records_memory = memory
        # By the identity of the storage's Python object, which lives as long as the storage does.
        self._storages: dict[int, weakref.ref[Any]] = {}
        self._allocated: dict[str, int] = {}
        self._watches: dict[tuple[str, int], Stopwatch] = {("cpu", 0): HostStopwatch(self.now)}
        self._open: Captured | None = None
        self._graphs: weakref.WeakKeyDictionary[Any, Captured] = weakref.WeakKeyDictionary()

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
        """Return the device's stopwatch; None for the meta device, which does no work."""
        index = 0 if device.type == "cpu" else self.index_of(device)
        watch = self._watches.get((device.type, index))
        if watch is not None:
            return watch
        backend = self.backends.get(device.type)
        if backend is None and device.type == "meta":
            return None
        watch = Stopwatch(self.now)
        if backend is not None:
            watch = DeviceStopwatch(
                backend, index, self.now, self.recorder.set_times, timed=self._times, is_capturing=self.is_capturing
            )
        return self._watches.setdefault((device.type, index), watch)

    def waited(self, name: str, device: torch.device, stream: int, began: int) -> None:
        """Record that the host waited for the device since `began`."""
        place = self.name_of(device)
        self.recorder.synchronise(name, place, stream=stream, launched=began, start=began, end=self.now())
        watch = self.watch_of(device)
        if watch is not None:
            watch.rest()

    def is_capturing(self) -> bool:
        """Return True if any thread captures a graph."""
        return self._open is not None

    def capture_began(self, device: torch.device) -> None:
        self._open = Captured(device)

    def capture_ended(self, graph: Any) -> None:
        """Store the capture as that of `graph`; None if the capture failed."""
        if self._open is not None and graph is not None:
            self._graphs[graph] = self._open
        self._open = None

    def captured(self, device: torch.device, size_bytes: int, flops: float) -> bool:
        """Return True if the last launch became part of a graph, and did not run."""
        graph, backend = self._open, self.backends.get(device.type)
        if graph is None or backend is None or not backend.is_capturing():
            return False
        graph.size_bytes += size_bytes
        graph.flops += flops
        return True

    def replay(self, graph: Any, device: torch.device, run: Callable[[], Any]) -> Any:
        """Run a graph once, and record it as one kernel."""
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
        """Record the memory of a new tensor, and its end, unless it views a known storage.

        The total after an allocation is the allocator's own figure, which counts workspaces too. The total after an
        end is that figure less the storage's bytes, as a destructor cannot call the allocator.
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
        allocated = self._allocated[device] = backend.allocated(self.index_of(tensor.device))
        row = recorder.memory(Kind.ALLOCATE, device, size, allocated, launched=self.now(), stream=stream, place=place)

    def lacked(self, device: torch.device, error: BaseException, stream: int, place: Place | None) -> None:
        """Record that an operator ran out of memory."""
        backend = self.backends.get(device.type)
        if self._records_memory and backend is not None:
            size, allocated = requested_bytes(str(error)), backend.allocated(self.index_of(device))
            self.recorder.memory(
                Kind.OUT_OF_MEMORY,
                self.name_of(device),
                size,
                allocated,
                launched=self.now(),
                stream=stream,
                place=place,
            )

    def settle(self) -> None:
        """Wait for the devices that have worked, and read their times."""
        for watch in list(self._watches.values()):
            watch.settle()

    def end(self) -> None:
        """Read the last times; record nothing that is freed from now on."""
        self.settle()
        self._storages.clear()


aten = torch.ops.aten
Tensor = torch.Tensor
_COLLECTIVES = frozenset({"c10d", "_c10d_functional"})
_CPU = torch.device("cpu")


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _dtypes(values: Any) -> Iterator[str]:
    return (str(tensor.dtype)[6:] for tensor in _tensors(values))


def _at(places: Iterable[int | str], args: Any, kwargs: Any) -> Iterator[Any]:
    """Yield the arguments at these positions and with these names, if the call has them."""
    for place in places:
        if isinstance(place, str):
            yield kwargs.get(place)
        elif place < len(args):
            yield args[place]


def _device_of(args: Any, kwargs: Any) -> torch.device:
    """Return the accelerator of one of the tensors or of the `device` argument; else the CPU."""
    for tensor in (*_tensors(args), *_tensors(kwargs.values())):
        if tensor.device.type != "cpu":
            return tensor.device
    device = kwargs.get("device")
    return _CPU if device is None else torch.device(device)


class ObservingMode(TorchDispatchMode):
    """Sees each operator after autograd, as a device does.

    Autograd's own threads have it too: their work counts for the line at which this mode's thread waits for them.
    """

    def __init__(self, observation: Observation) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._observation = observation
        self._recorder = observation.recorder
        self._thread = threading.get_ident()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        op = operator_of(func)
        if op.composite:
            with self:
                return func.decompose(*args, **kwargs)
        is_read = func is aten._local_scalar_dense.default
        if not (op.is_kernel or op.is_plain or is_read):
            return func(*args, **kwargs)
        device = _device_of(args, kwargs)
        if not self._recorder.enabled:
            self._recorder.unseen(device.type)
            return func(*args, **kwargs)
        if func is aten.copy_.default and args[1].device.type != "cpu":
            device = args[1].device  # between two GPUs it is the source that copies
        watch = self._observation.watch_of(device)
        if watch is None:
            return func(*args, **kwargs)
        runs = op.is_kernel or is_read
        lap = watch.start() if runs else Lap(-1)
        try:
            out = func(*args, **kwargs)
        except BaseException as error:
            watch.drop(lap)
            if isinstance(error, torch.OutOfMemoryError):
                self._observation.lacked(device, error, lap.stream, self._place())
            raise
        if runs:
            self._write(func, op, (args, kwargs), out, (device, watch, lap))
        if op.is_plain:
            self._memory(device, out, lap.stream)
        return out

    def _write(self, func: Any, op: Operator, call: Any, out: Any, launch: tuple[torch.device, Stopwatch, Lap]) -> None:
        """Record an operator that was launched, and returned `out`."""
        (args, kwargs), (device, watch, lap) = call, launch
        if func is aten._to_copy.default:
            non_blocking = bool(kwargs.get("non_blocking", False))
            self._copy(args[0], out, non_blocking, op.name, watch, lap)
        elif func is aten.copy_.default:
            non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
            self._copy(args[1], args[0], non_blocking, op.name, watch, lap)
        elif func is aten._local_scalar_dense.default:
            watch.stop(lap, waited=True)
            if device.type != "cpu":
                self._to_host(self._observation.name_of(device), args[0].element_size(), op.name, watch, lap)
        elif func.namespace in _COLLECTIVES:
            watch.drop(lap)
            first = func._schema.arguments[0].name if func._schema.arguments else ""
            sent = args[1:2] if func.namespace == "c10d" and first.startswith("output") else args[:1]
            name = self._observation.name_of(device)
            size = sum(map(bytes_of, _tensors(sent)))
            self._recorder.collective(op.name, name, size, stream=lap.stream, launched=lap.launched)
        else:
            self._kernel(func, op, call, out, (device, watch, lap))

    def _kernel(
        self, func: Any, op: Operator, call: Any, out: Any, launch: tuple[torch.device, Stopwatch, Lap]
    ) -> None:
        (args, kwargs), (device, watch, lap) = call, launch
        waits = device.type != "cpu" and op.waits is not None and op.waits(args)
        watch.stop(lap, waited=waits)
        recorder, name, place = self._recorder, self._observation.name_of(device), self._place()
        size = sum(map(bytes_of, (*_tensors([out]), *_tensors(args), *_tensors(kwargs.values()))))
        flops = flops_of(func, args, kwargs, out)
        if self._observation.captured(device, size, flops):
            watch.drop(lap)
            return
        if device.type != "cpu":
            for index in _tensors(_at(op.host_places, args, kwargs)):
                if index.device.type == "cpu":
                    recorder.transfer("cpu", name, bytes_of(index), name=op.name, launched=lap.launched, place=place)
        # What is written in place is among the arguments and the results: it is read, and it is written.
        row = recorder.kernel(
            op.name,
            name,
            size,
            stream=lap.stream,
            flops=flops,
            dtype=compute_dtype(_dtypes((*args, *kwargs.values())), _dtypes([out])),
            launched=lap.launched,
            start=lap.start,
            end=lap.end if lap.start >= 0 else -1,
            place=place,
        )
        watch.keep(lap, row)
        if waits:
            self._waited(name, op.name, watch, lap, place)

    def _copy(self, source: Tensor, target: Tensor, non_blocking: bool, name: str, watch: Stopwatch, lap: Lap) -> None:
        """Record a copy as CUDA does it; see `gpututor.devices.virtual.tensors.moves`."""
        recorder, place = self._recorder, self._place()
        start, end = self._observation.name_of(source.device), self._observation.name_of(target.device)
        count = target.numel()
        source_bytes, target_bytes = count * source.element_size(), count * target.element_size()
        both = source_bytes + target_bytes
        if self._observation.captured(target.device, both, 0.0):
            watch.drop(lap)
            return
        times: dict[str, Any] = {"stream": lap.stream, "launched": lap.launched, "place": place}
        if start == end:
            watch.stop(lap)
            if lap.start >= 0:
                times |= {"start": lap.start, "end": lap.end}
            watch.keep(lap, recorder.kernel(name, start, both, **times))
        elif start == "cpu":
            watch.stop(lap)
            pinned = non_blocking and source.is_pinned()
            size = source_bytes if non_blocking else target_bytes
            watch.keep(lap, recorder.transfer(start, end, size, pinned, name, **times))
            if source.dtype is not target.dtype and non_blocking:
                # The copy's times are those of both.
                recorder.kernel("aten::copy_", end, both, **times)
        elif end != "cpu" or (non_blocking and target.is_pinned()):
            watch.stop(lap)
            watch.keep(lap, recorder.transfer(start, end, target_bytes, True, name, **times))
        else:
            watch.stop(lap, waited=True)
            self._to_host(start, target_bytes if non_blocking else source_bytes, name, watch, lap)

    def _to_host(self, device: str, size_bytes: int, name: str, watch: Stopwatch, lap: Lap) -> None:
        """Record a copy to the host, which waited for it."""
        place = self._place()
        row = self._recorder.transfer(
            device, "cpu", size_bytes, name=name, stream=lap.stream, launched=lap.launched, place=place
        )
        watch.keep(lap, row)
        self._waited(device, name, watch, lap, place)

    def _waited(self, device: str, name: str, watch: Stopwatch, lap: Lap, place: Place | None) -> None:
        self._recorder.synchronise(
            name, device, stream=lap.stream, launched=lap.launched, start=lap.launched, end=lap.end, place=place
        )
        watch.rest()

    def _memory(self, device: torch.device, out: Any, stream: int) -> None:
        """Record new memory of an accelerator; the CPU's is not recorded."""
        if device.type == "cpu":
            return
        for tensor in _tensors([out]):
            if tensor.device.type != "cpu":
                self._observation.made(tensor, stream, self._place())

    def _place(self) -> Place | None:
        """Return the line that launched the work; None for the line that runs now."""
        if threading.get_ident() == self._thread:
            return None
        place = self._recorder.place()
        waiting = sys._current_frames().get(self._thread)
        return self._recorder.place(0, waiting) if place == NOWHERE and waiting is not None else place
