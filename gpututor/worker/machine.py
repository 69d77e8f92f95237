"""Entering the machine of a scenario, and measuring its clock and memory."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import torch

from gpututor.devices.real import observe
from gpututor.devices.real.backends import Backend, backends
from gpututor.devices.recorder import Recorder
from gpututor.protocol.encode import TensorView, plain_view
from gpututor.protocol.messages import MachineSpec
from gpututor.protocol.values import ValueRefused, tensors_in

if TYPE_CHECKING:
    from gpututor.devices.virtual import VirtualMachine


class DeviceMeter(Protocol):
    """Reads a machine. Times are whole nanoseconds of its clock; memory is in bytes, by device."""

    def now(self) -> int:
        """The time, for the thread that asks."""

    def settle(self) -> int:
        """Wait until all devices, and all threads of the virtual machine, are idle; the time then."""

    def handed_over(self, result: object) -> None:
        """The function returned this: from now on its caller reads it."""

    def allocated(self) -> dict[str, int]:
        """What tensors hold now."""

    def peaks(self) -> dict[str, int]:
        """The most that they held since `begin_peaks`, where the device's allocator tells."""

    def begin_peaks(self) -> None:
        """Begin anew. A virtual GPU's own meters keep their peaks, so that a program has to reset them."""

    def watch(self) -> Callable[[], dict[str, int | None]]:
        """Begin to measure what the clock cannot price; what is given reads it."""


class VirtualGauge:
    """Of a virtual machine: exact."""

    def __init__(self, machine: VirtualMachine) -> None:
        from gpututor.devices.virtual.execution import races

        self._machine, self._hazards = machine, races

    def now(self) -> int:
        return self._machine.clock.host.now

    def settle(self) -> int:
        clock = self._machine.clock
        clock.host.wait_until(max(clock.finish(), clock.host.last_work()))
        return clock.host.now

    def handed_over(self, result: object) -> None:
        if self._machine.pending_copies:
            with contextlib.suppress(ValueRefused):  # the packer says so
                self._hazards.on_host(self._machine, tensors_in(result).values())

    def allocated(self) -> dict[str, int]:
        return {gpu.name: gpu.memory.allocated for gpu in self._machine.gpus}

    def peaks(self) -> dict[str, int]:
        return {gpu.name: gpu.memory.peak_of_call for gpu in self._machine.gpus}

    def begin_peaks(self) -> None:
        for gpu in self._machine.gpus:
            gpu.memory.begin_peaks()

    def watch(self) -> Callable[[], dict[str, int | None]]:
        from gpututor.devices.virtual.execution.host_work import Watch

        watch = Watch()
        return lambda: asdict(watch.read())


class RealGauge:
    """Of the real devices of one kind; `kind` is `cpu`, which holds nothing, or an accelerator's."""

    def __init__(self, kind: str) -> None:
        self._backend: Backend | None = backends().get(kind)
        self._module: Any = getattr(torch, kind, None)

    def now(self) -> int:
        return perf_counter_ns()

    def settle(self) -> int:
        if self._backend is not None:
            for index in self._indices():
                self._backend.synchronise(index)
        return perf_counter_ns()

    def handed_over(self, result: object) -> None:
        """No record of races is kept here."""

    def allocated(self) -> dict[str, int]:
        backend = self._backend
        return {} if backend is None else {f"{backend.kind}:{i}": backend.allocated(i) for i in self._indices()}

    def peaks(self) -> dict[str, int]:
        peak = getattr(self._module, "max_memory_allocated", None)
        if self._backend is None or peak is None:
            return {}
        return {f"{self._backend.kind}:{index}": int(peak(index)) for index in self._indices()}

    def begin_peaks(self) -> None:
        reset = getattr(self._module, "reset_peak_memory_stats", None)
        if self._backend is not None and reset is not None:
            for index in self._indices():
                reset(index)

    def watch(self) -> Callable[[], dict[str, int | None]]:
        return lambda: {"nanoseconds": 0, "line": None}  # its clock measures everything

    def _indices(self) -> range:
        return range(self._module.device_count() if self._backend is not None else 0)


class CallMeasurement:
    """What the gauges say around one call: `begin()`, the call, `returned(result)`, and at its end `memory()`."""

    def __init__(self, gauge: DeviceMeter) -> None:
        self._gauge = gauge
        self._before: dict[str, int] = {}
        self._after: dict[str, int] = {}
        self._peaks: dict[str, int] = {}
        self.span = {"started": 0, "returned": 0, "finished": 0}
        self.unpriced: dict[str, int | None] = {}
        """Work of the host that the clock cannot price."""

    def begin(self) -> None:
        gauge = self._gauge
        gauge.settle()
        self._before = gauge.allocated()
        gauge.begin_peaks()
        self.span["started"] = gauge.now()
        self._watched = gauge.watch()

    def returned(self, result: object) -> None:
        gauge = self._gauge
        self.unpriced = self._watched()
        self.span["returned"] = gauge.now()
        gauge.handed_over(result)
        self.span["finished"] = gauge.settle()
        self._after, self._peaks = gauge.allocated(), gauge.peaks()

    def memory(self, *, left: bool) -> dict[str, dict[str, int | None]]:
        """By device. With `left`, what nobody uses any more is collected first: whoever holds the result lets it go."""
        if left:
            gc.collect()
        remains = self._gauge.allocated() if left else {}
        return {
            device: {
                "before": before,
                "peak": max(self._peaks.get(device, 0), self._after[device], before),
                "after": self._after[device],
                "left": remains.get(device),
            }
            for device, before in self._before.items()
        }


@dataclass(frozen=True)
class EnteredMachine:
    """What a run needs while it is inside a machine."""

    recorder: Recorder
    view: TensorView
    """How tensors that leave are looked at."""
    gauge: DeviceMeter
    virtual: VirtualMachine | None = None


@contextlib.contextmanager
def enter_machine(spec: MachineSpec, learner_file: str, *, observed: bool = True) -> Iterator[EnteredMachine]:
    """Be on the machine that `spec` describes; what its devices do is recorded by lines of `learner_file`.

    A real device is left alone where it is not `observed`: watching it costs time.
    """
    recorder = Recorder([learner_file])
    if spec.kind == "virtual":
        from gpututor.devices import virtual

        scenario = spec.scenario
        memory_bytes = None if scenario.memory_mib is None else scenario.memory_mib << 20
        with virtual.virtual_gpu(
            scenario.gpus,
            scenario.gpu,
            memory_bytes=memory_bytes,
            backends=scenario.backends,
            obey_environment=False,
            recorder=recorder,
        ) as machine:
            yield EnteredMachine(recorder, _virtual_view(), VirtualGauge(machine), machine)
        return
    if spec.kind in ("cuda", "xpu"):  # there is only one mps
        torch.accelerator.set_device_index(spec.index)
    with observe(recorder) if observed else contextlib.nullcontext():
        yield EnteredMachine(recorder, plain_view(), RealGauge(spec.kind))


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
