"""Enters the machine of a scenario, and measures its clock and memory."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import torch

from gpututor.devices.real import observe
from gpututor.devices.real.backends import backends
from gpututor.devices.recorder import Recorder
from gpututor.protocol.encode import TensorView, plain_view
from gpututor.protocol.messages import MachineSpec
from gpututor.protocol.values import ValueRefused, tensors_in

if TYPE_CHECKING:
    from gpututor.devices.virtual import VirtualMachine


class DeviceMeter(Protocol):
    """Meter of a machine. Times are whole nanoseconds of its clock; memory is in bytes, by device."""

    def now(self) -> int:
        """Return the calling thread's time."""

    def synchronize(self) -> int:
        """Wait for all devices, and for all threads of the virtual machine; return the time then."""

    def result_returned(self, result: object) -> None:
        """Note that the function returned `result`: from now on its caller reads it."""

    def allocated(self) -> dict[str, int]:
        """Return the memory of tensors."""

    def peaks(self) -> dict[str, int]:
        """Return the peak since `begin_peaks`, if the device's allocator reports it."""

    def segments(self) -> dict[str, dict[str, int]]:
        """Return figures of PyTorch's segments, by device, under names of `MemoryUse`; empty if unknown."""

    def begin_peaks(self) -> None:
        """Start new peaks. The submission's own peak statistics of a virtual GPU are not reset."""

    def measure_unpriced(self) -> Callable[[], dict[str, int | None]]:
        """Start to measure work that the clock cannot price; return a function that reads it."""


class VirtualMeter:
    """Exact meter of a virtual machine."""

    def __init__(self, machine: VirtualMachine) -> None:
        from gpututor.devices.virtual.execution import races

        self._machine, self._races = machine, races

    def now(self) -> int:
        return self._machine.clock.host.now

    def synchronize(self) -> int:
        self._machine.check()
        clock = self._machine.clock
        clock.host.wait_until(max(clock.finish(), clock.host.last_work()))
        return clock.host.now

    def result_returned(self, result: object) -> None:
        if self._machine.pending_copies:
            with contextlib.suppress(ValueRefused):  # the encoder reports it
                self._races.record_host_access(self._machine, tensors_in(result, of_arrays=True).values())

    def allocated(self) -> dict[str, int]:
        return {gpu.name: gpu.memory.allocated for gpu in self._machine.gpus}

    def peaks(self) -> dict[str, int]:
        return {gpu.name: gpu.memory.peak_of_call for gpu in self._machine.gpus}

    def segments(self) -> dict[str, dict[str, int]]:
        return {gpu.name: gpu.memory.segments_of_call() for gpu in self._machine.gpus}

    def begin_peaks(self) -> None:
        for gpu in self._machine.gpus:
            gpu.memory.begin_peaks()

    def measure_unpriced(self) -> Callable[[], dict[str, int | None]]:
        from gpututor.devices.virtual.execution.host_work import Watch

        watch = Watch()
        return lambda: asdict(watch.read())


class HostClock:
    """The host's nanoseconds since the first reading. Observer and meter share it, so their times have one origin."""

    _zero: int | None = None

    def __call__(self) -> int:
        now = perf_counter_ns()
        self._zero = now if self._zero is None else self._zero
        return now - self._zero


class RealMeter:
    """Meter of the real devices of one kind: `cpu`, without memory, or an accelerator."""

    def __init__(self, kind: str, clock_ns: Callable[[], int]) -> None:
        self._kind, self._clock_ns = kind, clock_ns
        self._backend: Any = backends().get(kind)
        self._module: Any = getattr(torch, kind, None)

    def now(self) -> int:
        return self._clock_ns()

    def synchronize(self) -> int:
        for index in self._indices():
            self._backend.synchronize(index)
        return self._clock_ns()

    def result_returned(self, result: object) -> None:
        """Do nothing: real devices record no races."""

    def allocated(self) -> dict[str, int]:
        return self._by_device(self._backend and self._backend.allocated)

    def peaks(self) -> dict[str, int]:
        return self._by_device(getattr(self._module, "max_memory_allocated", None))

    def segments(self) -> dict[str, dict[str, int]]:
        return {}  # observing them would cost time

    def begin_peaks(self) -> None:
        if reset := getattr(self._module, "reset_peak_memory_stats", None):
            for index in self._indices():
                reset(index)

    def measure_unpriced(self) -> Callable[[], dict[str, int | None]]:
        return lambda: {"nanoseconds": 0, "line": None}  # the real clock measures everything

    def _by_device(self, read: Callable[[int], int] | None) -> dict[str, int]:
        return {f"{self._kind}:{index}": int(read(index)) for index in self._indices()} if read else {}

    def _indices(self) -> range:
        return range(self._module.device_count() if self._backend is not None else 0)


class CallMeasurement:
    """Measurements of one call: `begin()`, the call, `returned(result)`, and last `memory()`."""

    def __init__(self, meter: DeviceMeter) -> None:
        self._meter = meter
        self._before: dict[str, int] = {}
        self._after: dict[str, int] = {}
        self._peaks: dict[str, int] = {}
        self._segments: dict[str, dict[str, int]] = {}
        self.span = {"started": 0, "returned": 0, "finished": 0}
        self.unpriced: dict[str, int | None] = {}
        """Work of the host that the clock cannot price."""

    def begin(self) -> None:
        meter = self._meter
        meter.synchronize()
        self._before = meter.allocated()
        meter.begin_peaks()
        self.span["started"] = meter.now()
        self._read_unpriced = meter.measure_unpriced()

    def returned(self, result: object) -> None:
        meter = self._meter
        self.unpriced = self._read_unpriced()
        self.span["returned"] = meter.now()
        meter.result_returned(result)
        self.span["finished"] = meter.synchronize()
        self._after, self._peaks = meter.allocated(), meter.peaks()
        self._segments = meter.segments()

    def memory(self, *, left: bool) -> dict[str, dict[str, int | None]]:
        """Return the memory by device. With `left`, unused objects are collected first."""
        if left:
            gc.collect()
        remains = self._meter.allocated() if left else {}
        return {
            device: {
                "before": before,
                "peak": max(self._peaks.get(device, 0), self._after[device], before),
                "after": self._after[device],
                "left": remains.get(device),
                **dict.fromkeys(("reserved", "reserved_peak", "largest_free")),
                **self._segments.get(device, {}),
            }
            for device, before in self._before.items()
        }


@dataclass(frozen=True)
class EnteredMachine:
    """Parts of a machine that a run uses."""

    recorder: Recorder
    view: TensorView
    meter: DeviceMeter
    virtual: VirtualMachine | None = None


_idle_machine = contextlib.ExitStack()


def enter_idle_machine() -> None:
    """Patch torch once for the virtual machines of all scenarios, and, before a fork, of all workers."""
    from gpututor.devices.virtual.session import idle_machine

    _idle_machine.enter_context(idle_machine())


def leave_idle_machine() -> None:
    """Restore torch, if it is patched, before it is used outside virtual machines."""
    _idle_machine.close()


@contextlib.contextmanager
def enter_machine(spec: MachineSpec, learner_file: str, *, observed: bool = True) -> Iterator[EnteredMachine]:
    """Enter the machine of `spec`, recorded by lines of `learner_file`; a real device only if `observed`."""
    recorder = Recorder([learner_file])
    if spec.kind == "virtual":
        from gpututor.devices import virtual

        scenario = spec.scenario
        memory_bytes = None if scenario.memory_mib is None else scenario.memory_mib << 20
        options: dict[str, Any] = {"memory_bytes": memory_bytes, "backends": scenario.backends, "recorder": recorder}
        with virtual.virtual_gpu(scenario.gpus, scenario.gpu, obey_environment=False, **options) as machine:
            machine.driver = scenario.driver
            yield EnteredMachine(recorder, _virtual_view(), VirtualMeter(machine), machine)
        return
    leave_idle_machine()
    if spec.kind in ("cuda", "xpu"):  # mps has a single device
        torch.accelerator.set_device_index(spec.index)
    # The observer reads the clock first: its recording begins at 0.
    clock_ns = HostClock()
    with observe(recorder, clock_ns=clock_ns) if observed else contextlib.nullcontext():
        yield EnteredMachine(recorder, plain_view(), RealMeter(spec.kind, clock_ns))


def _virtual_view() -> TensorView:
    from gpututor.devices import virtual
    from gpututor.devices.virtual.tensors.tensor import VirtualTensor

    plain = plain_view()

    def host(tensor: torch.Tensor) -> torch.Tensor:
        return virtual.host_tensor(tensor) if virtual.is_virtual(tensor) else plain.host(tensor)

    def storage(tensor: torch.Tensor) -> int:
        return virtual.storage_key(tensor) if virtual.is_virtual(tensor) else plain.storage(tensor)

    def pinned(tensor: torch.Tensor) -> bool:
        return False if virtual.is_virtual(tensor) else virtual.pinned(tensor)

    return TensorView(host, storage, pinned, (*plain.exact_types, VirtualTensor))
