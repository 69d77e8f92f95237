"""The machine that torch sees while the virtual GPU is on: its GPUs, the current one, the recorder."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.machine_clock import MachineClock
from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.cost import kernel as cost
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.memory.allocator import Allocation, CachingAllocator
from gpututor.devices.virtual.memory.events import AllocationLog, PendingCopies
from gpututor.devices.virtual.memory.settings import AllocatorSettings
from gpututor.devices.virtual.options import MAX_GPUS
from gpututor.hardware.gpus import GpuSpec

CPU = torch.device("cpu")
NOWHERE = torch.device("meta")
"""The device of tensors that have a shape only."""
META = tuple(torch.device("meta", index) for index in range(MAX_GPUS))
"""The devices that C++ sees. A learner's own meta tensors have no index."""
MAX_CHOSEN = 20_000
"""Number of changes of the current stream that a thread remembers for backward passes."""
CUDA_DEFAULT_SEED = 67280421310721
"""The default seed of a CUDA generator (c10/core/GeneratorImpl.h)."""


class Following(Protocol):
    """A backward pass whose nodes have streams of their own: see `api.backward`."""

    def follow(self) -> None:
        """Make the stream of the node that runs now the current stream."""


class NodeDevices(Protocol):
    """The current devices of the nodes of a backward pass: see `api.backward`."""

    index: int | None
    """The current device of the node that runs now; None if it is the caller's."""


class _PerThread(threading.local):
    device_index = 0
    nodes: NodeDevices | None = None
    """The current devices in the backward pass that this thread runs on several GPUs."""
    region: Any = None
    """The call of compiled code that is running: see `execution.launch.CompiledRegion`."""
    backward: Following | None = None
    """The backward pass that this thread runs, if it switches streams."""

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}
        """The current stream of each GPU, by its index; the default stream, 0, for GPUs that are missing here."""
        self.chosen: dict[int, list[tuple[int, int]]] = {}
        """Changes of the current stream by GPU index: (sequence number of the first autograd node after it, stream)."""

    def choose_stream(self, gpu: int, number: int, first: int | None = None) -> None:
        """Make a stream current, and remember it for autograd nodes from number `first` on, by default the next."""
        if self.backward is not None:
            self.backward.follow()
        self.streams[gpu] = number
        chosen = self.chosen.setdefault(gpu, [])
        first = torch_private.next_sequence_number() if first is None else first
        while chosen and chosen[-1][0] >= first:
            chosen.pop()
        if number != (chosen[-1][1] if chosen else 0):
            chosen.append((first, number))
            if len(chosen) > MAX_CHOSEN:
                del chosen[: MAX_CHOSEN // 2]

    def stream(self, gpu: int) -> int:
        if self.backward is not None:
            self.backward.follow()
        streams = self.streams
        return streams.get(gpu, 0) if streams else 0

    def stream_of_node(self, gpu: int, sequence_number: int) -> int:
        """Return the stream that was current when an autograd node of this thread was made."""
        chosen = self.chosen.get(gpu, ())
        place = bisect_right(chosen, sequence_number, key=itemgetter(0))
        return chosen[place - 1][1] if place else 0


@dataclass(frozen=True, slots=True)
class UploadedBytes:
    """A past copy to a GPU: which bytes of the host it copied, in which version, and its row in the trace."""

    storage: weakref.ref[torch.UntypedStorage]
    version: int
    view: tuple[Any, ...]
    row: int


class GraphCapture(Protocol):
    """The graph that is being captured: see `execution.graph_capture`."""

    failed: bool
    gpu: VirtualGpu
    undo: dict[int, Callable[[], None]]
    own: set[int]
    results: list[torch.Tensor]
    generators: dict[Any, Any]

    def forbids(self) -> bool: ...
    def began_on(self, gpu: int, stream: int) -> bool: ...
    def includes(self, gpu: int, stream: int) -> bool: ...
    def add(self, step: Callable[[], None], kernels: tuple[str, ...]) -> None: ...
    def kernel(self, stream: int, name: str, size_bytes: int, cost: Cost) -> None: ...
    def copy(self, stream: int, name: str, size_bytes: int, engine: str, duration: int) -> None: ...
    def record(self, stream: int) -> EventMarker: ...
    def wait(self, gpu: int, stream: int, mark: EventMarker) -> None: ...
    def check(self) -> None: ...
    def reads(self, block: Allocation) -> None: ...
    def writes(self, block: Allocation) -> None: ...
    def makes(self, tensor: Any) -> None: ...


class VirtualGpu:
    """A GPU: its properties, its memory and its random generator."""

    def __init__(
        self,
        index: int,
        spec: GpuSpec,
        memory_bytes: int,
        slot: int | None = None,
        *,
        new_generator: Callable[[torch.device], torch.Generator],
    ) -> None:
        self.index = index
        self.slot = index if slot is None else slot
        """The GPU's number on the machine; `CUDA_VISIBLE_DEVICES` can give it another index."""
        self.spec = spec
        self.device = torch.device("cuda", index)
        """The device object in Python; each GPU of each machine has its own."""
        self.name = str(self.device)
        self.memory = CachingAllocator(index, memory_bytes)
        self.launch_ns = round(spec.launch_s * 1e9)
        """Nanoseconds that a launch costs the host."""
        self.view_ns = round(spec.launch_s * cost.launches("aten::view") * 1e9)
        """Nanoseconds that an operator without a launch, such as a view, costs the host."""
        self._new_generator = new_generator
        self._generator: torch.Generator | None = None

    @property
    def generator(self) -> torch.Generator:
        """The generator of this GPU alone; it draws on the CPU."""
        if self._generator is None:
            self._generator = self._new_generator(self.device)
            self._generator.manual_seed(CUDA_DEFAULT_SEED)
        return self._generator


class VirtualMachine:
    """The machine that `virtual_gpu()` enters: GPUs, backends that report themselves available, recorder."""

    def __init__(
        self,
        gpus: tuple[VirtualGpu, ...],
        backends: frozenset[str],
        recorder: Recorder | None,
        values: bool = True,
        changed_gpus: Callable[[], tuple[VirtualGpu, ...] | None] = lambda: None,
        allocator_settings: Callable[[], AllocatorSettings] = AllocatorSettings,
    ) -> None:
        self.gpus = gpus
        self._changed_gpus = changed_gpus
        """Returns the visible GPUs after a change of `CUDA_VISIBLE_DEVICES`; None without a change."""
        self._allocator_settings = allocator_settings
        """Returns the allocator settings of the environment."""
        self.values = values
        """False in shape-only mode: tensors have shapes but no values, and nothing is computed."""
        self.host_device = CPU if values else NOWHERE
        """The device of the real tensor behind each virtual tensor."""
        self.by_device = {id(gpu.device): gpu for gpu in gpus}
        """GPUs by the identity of their device objects: tensors of another machine are not found."""
        self.backends = backends
        self.per_thread = _PerThread()
        self.clock = MachineClock(len(gpus))
        self.pending_copies = PendingCopies()
        """Asynchronous copies of page-locked memory whose end the host has not waited for yet."""
        self.uploads: dict[tuple[int, int], UploadedBytes] = {}
        """The last copy of each host storage to each GPU (see `execution.copies`)."""
        self.marked_steps = 0
        """Calls of `torch.compiler.cudagraph_mark_step_begin()`."""
        self._overwritten: dict[tuple[int, bool], torch.device] = {}
        self.capture: GraphCapture | None = None
        """The graph that is being captured; None if no graph is."""
        self.has_failed = False
        """True after a kernel failed an assertion: every later call of CUDA raises the same error."""
        self.sync_debug = 0
        """The mode that `torch.cuda.set_sync_debug_mode` chose: 1 warns of waits, 2 forbids them."""
        self.waits_in_real_time = False
        """True once learner code has waited in a way that the clock does not follow; the trace names the first wait."""
        self.driver = "fits"
        """The driver of a machine without GPUs, one of `DRIVERS`: it decides which error CUDA gives."""
        self.started = False
        self.driver_started = False
        """True once CUDA has read `CUDA_VISIBLE_DEVICES`, and may no longer be used in forked children."""
        """True once CUDA has started. Counting the GPUs does not start it."""
        self.is_replaceable = False
        """True if `virtual_gpu()` may replace it, like the machine of a pytest session."""
        self.is_idle = False
        """True for a machine on which no program runs: see `session.idle_machine`."""
        self.in_bad_fork = False
        """True in a forked child of a process that had used CUDA, which does not survive a fork."""
        self.may_have_real_tensors = torch_private.real_cuda_has_started()
        """True if tensors of a real GPU may exist, which this machine leaves alone."""

        self.recorder: Recorder
        if recorder is None:
            recorder = Recorder()
            recorder.enabled = False
        self.record_with(recorder)

    def record_with(self, recorder: Recorder) -> None:
        """Record to another recorder from now on; work that was launched before goes to the old one."""
        self.finish()
        self.recorder = recorder
        recorder.finish = self.finish
        self._connect_gpus()

    def refresh_gpus(self) -> None:
        """Apply a change of `CUDA_VISIBLE_DEVICES`, which CUDA reads only once it starts."""
        gpus = None if self.started or self.driver_started else self._changed_gpus()
        if gpus is not None:
            self.gpus = gpus
            self.by_device = {id(gpu.device): gpu for gpu in gpus}
            self.clock.replace_gpus(len(gpus))
            self._connect_gpus()

    def _connect_gpus(self) -> None:
        recorder = self.recorder
        for timeline in self.clock.gpus:
            timeline.played = recorder.set_times
        for gpu in self.gpus:
            gpu.memory.values_on_host = self.values
            gpu.memory.watch = AllocationLog(gpu.index, gpu.name, self.clock, recorder, self.per_thread)

    def start(self) -> None:
        """Start CUDA at its first use; raise its errors if that is impossible."""
        if self.in_bad_fork:
            raise cuda_errors.bad_fork()
        self.check()
        if not self.started:
            self.refresh_gpus()
            settings = self._allocator_settings()
            for gpu in self.gpus:
                gpu.memory.start(settings)
        if not self.gpus:
            raise self.why_no_gpus()
        self.started = True

    def why_no_gpus(self) -> Exception:
        """Return the error for the use of CUDA on a machine without a usable GPU."""
        return cuda_errors.no_gpus(self.driver) if "cuda" in self.backends else cuda_errors.not_compiled()

    @property
    def current(self) -> VirtualGpu:
        """The GPU that `cuda` without a number means in this thread."""
        self.start()
        return self.gpus[self.current_index]

    @property
    def current_index(self) -> int:
        """The index of that GPU."""
        thread = self.per_thread
        index = thread.nodes.index if thread.nodes is not None else None
        return thread.device_index if index is None else index

    def gpu(self, index: int) -> VirtualGpu:
        """Return GPU number `index`, or raise CUDA's error for a missing GPU."""
        self.start()
        if not 0 <= index < len(self.gpus):
            raise cuda_errors.invalid_ordinal()
        return self.gpus[index]

    def home(self, device: torch.device) -> VirtualGpu:
        """Return the GPU of a virtual tensor's device; raise `RuntimeError` for a tensor of another machine."""
        gpu = self.by_device.get(id(device))
        if gpu is None:
            self.check()
            for (_, is_gradient), overwritten in self._overwritten.items():
                if device is overwritten:
                    raise cuda_errors.overwritten(is_gradient=is_gradient)
            raise cuda_errors.forked_tensor() if self.in_bad_fork else cuda_errors.left_over()
        return gpu

    def overwritten_device(self, index: int, *, is_gradient: bool) -> torch.device:
        """Return a device object that marks overwritten results of compiled code on a GPU: `home` rejects it."""
        return self._overwritten.setdefault((index, is_gradient), torch.device("cuda", index))

    def fail(self) -> None:
        """Make every later call of CUDA raise the error of a failed assertion, until `recover`."""
        self.has_failed = True
        # `home` looks up the GPU of every operator there, so a working GPU costs no extra check.
        self.by_device = {}

    def check(self) -> None:
        """Raise the error of a failed assertion, if there was one."""
        if self.has_failed:
            raise cuda_errors.device_assert()

    def recover(self) -> None:
        """Make the GPUs work again; on a real GPU, only a new process does."""
        if self.has_failed:
            self.has_failed = False
            self.by_device = {id(gpu.device): gpu for gpu in self.gpus}

    def stream_of(self, gpu: VirtualGpu) -> int:
        """Return the number of this thread's current stream on that GPU; 0 is the default stream."""
        thread = self.per_thread
        if thread.backward is not None:
            thread.backward.follow()
        streams = thread.streams
        return streams.get(gpu.index, 0) if streams else 0

    def finish(self) -> None:
        """Run the clock to the end of all work, and record all freed memory, so that the trace is complete."""
        self.clock.finish()
        for gpu in self.gpus:
            gpu.memory.settle()
            if gpu.memory.watch is not None:
                gpu.memory.watch.record_freed_in_use()

    def set_current(self, index: int) -> None:
        thread, index = self.per_thread, self.gpu(index).index
        if thread.nodes is not None and thread.nodes.index is not None:
            thread.nodes.index = index
        else:
            thread.device_index = index


class _Active:
    machine: VirtualMachine | None = None


def _after_fork() -> None:
    machine = _Active.machine
    if machine is not None and (machine.started or machine.driver_started):
        machine.in_bad_fork = True
        # Tensors that the child inherits belong to no GPU.
        machine.by_device = {}


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork)


def set_active_machine(machine: VirtualMachine | None) -> None:
    """Make `machine` the machine that torch sees; None switches the virtual GPU off."""
    _Active.machine = machine


def active_machine(what: str = "tensor") -> VirtualMachine:
    """Return the active machine. Raises `RuntimeError` if there is none; `what` names the object in use."""
    machine = _Active.machine
    if machine is None:
        raise RuntimeError(f"This {what} is on a virtual GPU that is switched off.")
    return machine


def is_on() -> bool:
    return _Active.machine is not None


def python_device(value: Any) -> torch.device:
    """Return the device for a device, name or index; `cuda` gets its current index, and the index is checked.

    Devices are in C++'s notation: `meta` with an index is a virtual GPU. For user input, see `requested_device`.
    """
    if type(value) is int:
        if value < 0:
            raise RuntimeError("Device index must not be negative")  # torch/csrc/utils/python_arg_parser.h
        return active_machine().gpu(value).device
    device = value if type(value) is torch.device else torch.device(value)
    kind = device.type
    if kind == "cuda":
        index = device.index
        return (active_machine().current if index is None else active_machine().gpu(index)).device
    if kind == "meta":
        return device if device.index is None else active_machine().gpu(device.index).device
    if kind != "cpu" and kind in active_machine().backends:
        raise cuda_errors.backend_without_tensors(kind)
    return device


def requested_device(value: Any) -> torch.device:
    """Return the device that the user asked for. An index of `meta` is dropped: in C++ it would be a virtual GPU."""
    device = value if type(value) is int or type(value) is torch.device else torch.device(value)
    if type(device) is torch.device and device.type == "meta":
        return torch.device("meta")
    return python_device(device)


def cpp_device(value: Any) -> torch.device:
    """Return the device that C++ gets for a user's `value`."""
    device = requested_device(value)
    return META[device.index] if device.type == "cuda" else device
