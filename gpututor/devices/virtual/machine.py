"""The machine that torch sees while the virtual GPU is on: its GPUs, which of them is current, who records."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.clock.machine_clock import MachineClock
from gpututor.devices.virtual.clock.timeline import EventMarker
from gpututor.devices.virtual.cost import kernel as cost
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.memory.allocator import Allocation, CachingAllocator
from gpututor.devices.virtual.memory.events import AllocationLog, PendingCopies
from gpututor.devices.virtual.options import MAX_GPUS
from gpututor.hardware.gpus import GpuSpec

CPU = torch.device("cpu")
NOWHERE = torch.device("meta")
"""Where tensors have a shape only."""
META = tuple(torch.device("meta", index) for index in range(MAX_GPUS))
"""The devices that C++ sees. A learner's own meta tensors have no index."""
CUDA_DEFAULT_SEED = 67280421310721
"""The seed of a CUDA generator that nobody seeded (c10/core/GeneratorImpl.h)."""


class _PerThread(threading.local):
    device_index = 0

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}
        """The current stream of each GPU, by its index; the default stream, 0, of those that are not in it."""


@dataclass(frozen=True, slots=True)
class UploadedBytes:
    """A copy to a GPU: the storage of the host, its version then, the view of it, and the event of the trace."""

    storage: weakref.ref[torch.UntypedStorage]
    version: int
    view: tuple[Any, ...]
    row: int


class GraphCapture(Protocol):
    """The graph that is being captured: see `work.captures`."""

    failed: bool
    gpu: VirtualGpu
    undo: dict[int, Callable[[], None]]
    own: set[int]
    read: WeakSet[Allocation]
    written: WeakSet[Allocation]
    made: WeakSet[Allocation]

    def forbids(self) -> bool: ...
    def began_on(self, gpu: int, stream: int) -> bool: ...
    def takes(self, gpu: int, stream: int) -> bool: ...
    def add(self, step: Callable[[], None], kernels: tuple[str, ...]) -> None: ...
    def kernel(self, stream: int, name: str, size_bytes: int, cost: Cost) -> None: ...
    def copy(self, stream: int, name: str, size_bytes: int, engine: str, duration: int) -> None: ...
    def record(self, stream: int) -> EventMarker: ...
    def wait(self, gpu: int, stream: int, mark: EventMarker) -> None: ...
    def check(self) -> None: ...


class VirtualGpu:
    """One GPU: what it is, its memory and its random generator."""

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
        """Its number in the box, which `CUDA_VISIBLE_DEVICES` can make another than its index."""
        self.spec = spec
        self.device = torch.device("cuda", index)
        """What Python sees. One object for each GPU of each machine: devices, and machines, are told apart by it."""
        self.name = str(self.device)
        self.memory = CachingAllocator(index, memory_bytes)
        self.launch_ns = round(spec.launch_s * 1e9)
        """What a launch costs the host, in nanoseconds."""
        self.view_ns = round(spec.launch_s * cost.launches("aten::view") * 1e9)
        """What an operator costs the host that launches nothing."""
        self._new_generator = new_generator
        self._generator: torch.Generator | None = None

    @property
    def generator(self) -> torch.Generator:
        """A generator that only this GPU draws from; it draws on the CPU."""
        if self._generator is None:
            self._generator = self._new_generator(self.device)
            self._generator.manual_seed(CUDA_DEFAULT_SEED)
        return self._generator


class VirtualMachine:
    """What `virtual_gpu()` gives: the GPUs, the backends that report themselves available, and the recorder."""

    def __init__(
        self,
        gpus: tuple[VirtualGpu, ...],
        backends: frozenset[str],
        recorder: Recorder | None,
        values: bool = True,
    ) -> None:
        self.gpus = gpus
        self.values = values
        """Whether tensors have values; without, they have shapes only, and nothing is computed."""
        self.host_device = CPU if values else NOWHERE
        """Where what is behind the virtual tensors is kept."""
        self.by_device = {id(gpu.device): gpu for gpu in gpus}
        """Each GPU by the identity of its device object, which no tensor of another machine has."""
        self.backends = backends
        self.per_thread = _PerThread()
        self.clock = MachineClock(len(gpus))
        self.pending_copies = PendingCopies()
        """Asynchronous copies of page-locked memory of which the host does not know yet that they are done."""
        self.brought: dict[tuple[int, int], UploadedBytes] = {}
        """By storage of the host and GPU: what was copied there last (see `work.repeats`)."""
        self.capture: GraphCapture | None = None
        """The graph that is being captured, if one is."""
        self.sync_debug = 0
        """What `torch.cuda.set_sync_debug_mode` chose: 1 warns of waits, 2 forbids them."""
        self.waits_in_real_time = False
        """Learner code has waited for a thread in a way that the clock does not follow; the trace says so once."""
        for gpu in gpus:
            gpu.memory.values_on_host = values
        self.started = False
        """Whether anything needed a GPU so far; asking how many there are does not."""
        self.gives_way = False
        """Whether `virtual_gpu()` may put another in its place, as tests do with that of their session."""
        self.in_bad_fork = False
        """Whether this is a forked child of a process whose GPUs had started: CUDA does not survive a fork."""
        self.beside_real_gpu = torch_private.real_cuda_has_started()
        """Whether tensors of a real GPU may be about, which are none of this machine's business."""

        self.recorder: Recorder
        self.record_with(recorder if recorder is not None else _silent())

    def record_with(self, recorder: Recorder) -> None:
        """Write all that is done from now on to another recorder; what was done is finished in the one before."""
        self.finish()
        self.recorder = recorder
        recorder.finish = self.finish
        for timeline in self.clock.gpus:
            timeline.played = recorder.set_times
        for gpu in self.gpus:
            gpu.memory.watch = AllocationLog(gpu.index, gpu.name, self.clock, recorder, self.per_thread)

    def start(self) -> None:
        """What CUDA does at its first use; raises its errors when that cannot be."""
        if self.in_bad_fork:
            raise cuda_errors.bad_fork()
        if not self.gpus:
            raise cuda_errors.no_gpus()
        self.started = True

    @property
    def current(self) -> VirtualGpu:
        """The GPU that `cuda` without a number means in this thread."""
        self.start()
        return self.gpus[self.per_thread.device_index]

    def gpu(self, index: int) -> VirtualGpu:
        """GPU number `index`; raises CUDA's error when there is no such one."""
        self.start()
        if not 0 <= index < len(self.gpus):
            raise cuda_errors.invalid_ordinal()
        return self.gpus[index]

    def home(self, device: torch.device) -> VirtualGpu:
        """The GPU of a virtual tensor's device; raises `RuntimeError` for a tensor of another machine."""
        gpu = self.by_device.get(id(device))
        if gpu is None:
            raise cuda_errors.forked_tensor() if self.in_bad_fork else cuda_errors.left_over()
        return gpu

    def stream_of(self, gpu: VirtualGpu) -> int:
        """The number of this thread's current stream on that GPU; 0 is the default stream."""
        streams = self.per_thread.streams
        return streams.get(gpu.index, 0) if streams else 0

    def finish(self) -> None:
        """Play all work and count all freed memory, so that the trace has every time and every event."""
        self.clock.finish()
        for gpu in self.gpus:
            gpu.memory.settle()

    def set_current(self, index: int) -> None:
        self.per_thread.device_index = self.gpu(index).index


def _silent() -> Recorder:
    recorder = Recorder()
    recorder.enabled = False
    return recorder


class _Active:
    machine: VirtualMachine | None = None


def _after_fork() -> None:
    machine = _Active.machine
    if machine is not None and machine.started:
        machine.in_bad_fork = True
        # The tensors that the child inherits are at home nowhere.
        machine.by_device = {}


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork)


def set_active_machine(machine: VirtualMachine | None) -> None:
    """Make `machine` the one that torch sees; None switches the virtual GPU off."""
    _Active.machine = machine


def active_machine(what: str = "tensor") -> VirtualMachine:
    """The machine that is on; raises `RuntimeError` when none is, about `what` was left of an earlier one."""
    machine = _Active.machine
    if machine is None:
        raise RuntimeError(f"This {what} lives on a virtual GPU that is switched off.")
    return machine


def is_on() -> bool:
    return _Active.machine is not None


def python_device(value: Any) -> torch.device:
    """The device that a device, a name or a number means: `cuda` gets its number, which is checked.

    As C++ names devices: `meta` with a number is a virtual GPU. What a person wrote goes through `meant_device`.
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


def meant_device(value: Any) -> torch.device:
    """As `python_device`, for what a person wrote: there is one meta device, whatever its number."""
    device = value if type(value) is int or type(value) is torch.device else torch.device(value)
    if type(device) is torch.device and device.type == "meta":
        return torch.device("meta")
    return python_device(device)


def cpp_device(value: Any) -> torch.device:
    """The device that C++ is told for what a person means by `value`."""
    device = meant_device(value)
    return META[device.index] if device.type == "cuda" else device
