"""Devices of a grading: the machine of a scenario, and locks on real devices.

Locks are files in a folder of the machine, used by the app, class gradings and Ray workers. The system releases a lock
when its process ends. Each device has two files: the lock, and the turn, which a process holds while it waits for the
lock. So a process that waits for an exclusive lock is not starved by processes that share it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpututor import paths
from gpututor.checks.model import Machine
from gpututor.course.model import Exercise
from gpututor.errors import NotGradableHere, UsageError
from gpututor.grading.events import GradeRequest
from gpututor.hardware.gpus import gpu_spec
from gpututor.hardware.inventory import device_in_key, select_device
from gpututor.hardware.scenario import ACCELERATORS, Scenario
from gpututor.protocol.messages import MachineSpec


def machine_specs(
    exercise: Exercise, request: GradeRequest, available: Sequence[dict[str, object]]
) -> tuple[MachineSpec, ...]:
    """Return a machine for each scenario. `available`: the worker's devices. Raises `NotGradableHere`, `UsageError`."""
    counts = Counter(str(device["kind"]) for device in available)
    kind, index = select_device(exercise.devices, request.device, counts)
    if kind == "cpu":
        return (MachineSpec(Scenario("the CPU", 0, (), ""), "cpu", 0),)
    return tuple(_machine(scenario, kind, index, counts, request) for scenario in exercise.scenarios)


def to_machine(machine: MachineSpec, available: Sequence[dict[str, object]]) -> Machine:
    """Convert a machine to the form that checks read."""
    scenario, is_virtual = machine.scenario, machine.kind == "virtual"
    name, memory_bytes = "", None
    if machine.device != "cpu" and is_virtual:
        gpu, memory_mib = gpu_spec(scenario.gpu), scenario.memory_mib
        name, memory_bytes = gpu.reported_name, gpu.memory_bytes if memory_mib is None else memory_mib << 20
    elif machine.device != "cpu":
        device = next(device for device in available if device["name"] == machine.device)
        name, known = str(device["description"]), device["memory_bytes"]
        memory_bytes = known if isinstance(known, int) else None
    return Machine(scenario, machine.device, is_virtual, name, memory_bytes)


def journal_device(exercise: Exercise, request: GradeRequest, available: Sequence[dict[str, object]]) -> str:
    """Return the value of `GradingKey.device`. Raises what `machine_specs` raises."""
    kind, index = select_device(exercise.devices, request.device, Counter(str(device["kind"]) for device in available))
    if kind in ACCELERATORS:
        model = next(str(device["description"]) for device in available if device["name"] == f"{kind}:{index}")
    else:
        model = gpu_spec(request.gpu).name if request.gpu else ""
    return device_in_key(kind, model)


def describe_device(spec: MachineSpec, available: Sequence[dict[str, object]]) -> str:
    """Describe the machine: `cuda:0, virtual T4`; `2 x virtual T4`; `no GPU, only the CPU`; `cuda:0, NVIDIA H200`."""
    if spec.kind != "virtual":
        described = [str(device["description"]) for device in available if device["name"] == spec.device]
        return f"{spec.device}, {described[0]}" if described else spec.device
    scenario = spec.scenario
    if spec.device == "cpu":
        others = [backend for backend in scenario.backends if backend != "cuda"]
        return f"no CUDA GPU, {' and '.join(others)} reported" if others else "no GPU, only the CPU"
    return (
        f"{spec.device}, virtual {scenario.gpu}" if scenario.gpus == 1 else f"{scenario.gpus} x virtual {scenario.gpu}"
    )


def _machine(scenario: Scenario, kind: str, index: int, counts: Counter[str], request: GradeRequest) -> MachineSpec:
    """Return the scenario on the real device if it fits there, otherwise on the virtual GPU."""
    wants_plain_gpus = scenario.gpus >= 1 and scenario.backends == ("cuda",) and scenario.memory_mib is None
    if kind != "virtual" and wants_plain_gpus and scenario.gpus <= counts[kind] - index:
        return MachineSpec(replace(scenario, backends=(kind,), gpu=""), kind, index)
    if request.gpus is not None and not 0 <= request.gpus <= 8:
        raise UsageError(f"{request.gpus} virtual GPUs are not possible.", "Use --gpus with 0 to 8.")
    gpus = scenario.gpus
    if request.gpus is not None and scenario.gpus:
        if request.gpus < scenario.gpus:
            raise NotGradableHere(
                f"The scenario {scenario.name!r} needs a machine with {scenario.gpus} GPUs, not {request.gpus}.",
                "Leave out --gpus, or give a larger number.",
            )
        gpus = request.gpus
    gpu = gpu_spec(request.gpu or scenario.gpu).name
    return MachineSpec(replace(scenario, gpus=gpus, gpu=gpu), "virtual", 0)


_RETRY_EVERY_S = 0.02
_FIRST_REPORT_S, _REPORT_EVERY_S = 1.0, 30.0

OnWait = Callable[[str], None]
"""Called with the device's name after a moment of waiting for it, and at intervals later."""


class DeviceLocks:
    """Locks on some devices. `names`: readable names, each with the name of its lock files."""

    def __init__(self, names: dict[str, str], on_wait: OnWait, folder: Path | None = None) -> None:
        # Always in the same order: two processes never wait for each other.
        self._names = sorted(names.items(), key=lambda pair: pair[1])
        self._on_wait = on_wait
        self._folder = folder or paths.device_locks_folder()
        self._held = contextlib.ExitStack()

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Share the devices with other gradings."""
        self._held = self._take(fcntl.LOCK_SH)
        try:
            yield
        finally:
            self._held.close()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Use the devices exclusively for a while; only inside `shared`."""
        self._held.close()
        self._held = self._take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self._held.close()
            self._held = self._take(fcntl.LOCK_SH)

    def _take(self, how: int) -> contextlib.ExitStack:
        with contextlib.ExitStack() as taken:
            for device, file in self._names:
                with contextlib.ExitStack() as turn:
                    self._lock(turn, device, f"{file}.turn", fcntl.LOCK_EX)
                    self._lock(taken, device, f"{file}.lock", how)
            return taken.pop_all()

    def _lock(self, held: contextlib.ExitStack, device: str, file: str, how: int) -> None:
        descriptor = _open_lock(self._folder, file)
        if descriptor is None:
            return  # without a lock, another grading may disturb the times, but this grading still works
        held.callback(os.close, descriptor)
        next_report = time.monotonic() + _FIRST_REPORT_S
        while True:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= next_report:
                    self._on_wait(device)
                    next_report = time.monotonic() + _REPORT_EVERY_S
                time.sleep(_RETRY_EVERY_S)
            except OSError:
                return  # a file system without locks: see above


def locks_for(
    machines: Sequence[MachineSpec],
    available: Sequence[Mapping[str, object]],
    on_wait: OnWait,
    folder: Path | None = None,
) -> DeviceLocks:
    """Return locks on the real accelerators of these machines; `available` are the devices that the worker found."""
    names = {
        f"{machine.kind}:{index}"
        for machine in machines
        if machine.kind in ACCELERATORS
        for index in range(machine.index, machine.index + max(1, machine.scenario.gpus))
    }
    by_name = {str(device["name"]): device for device in available}
    return DeviceLocks({name: _lock_name(name, by_name.get(name, {})) for name in names}, on_wait, folder)


def _lock_name(name: str, device: Mapping[str, object]) -> str:
    """Return a name with the device's UUID. Its number differs between processes with other visible devices."""
    return re.sub(r"[^A-Za-z0-9-]", "-", f"{name.partition(':')[0]}-{device.get('uuid') or name.partition(':')[2]}")


def _open_lock(folder: Path, file: str) -> int | None:
    """Open a lock file; None if that fails, so that the device is used without a lock.

    Any user may lock a readable file; nothing is ever written to it.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    with contextlib.suppress(OSError):
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o1777)
    with contextlib.suppress(OSError):
        return os.open(folder / file, flags)
    with contextlib.suppress(OSError):
        before = os.umask(0o022)
        try:
            return os.open(folder / file, flags | os.O_CREAT, 0o644)
        finally:
            os.umask(before)
    return None
