"""Which machines a submission is to see: the exercise's scenarios, on the devices that are here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpututor.checks.core import Machine
from gpututor.course.exercise import Exercise, Scenario
from gpututor.devices.virtual.specs import spec
from gpututor.errors import NotGradableHere, UsageError
from gpututor.grading.choosing import ACCELERATORS, chosen, device_in_key
from gpututor.grading.events import GradeRequest
from gpututor.wire.messages import MachineSpec


def machines_for(
    exercise: Exercise, request: GradeRequest, available: Sequence[dict[str, object]]
) -> tuple[MachineSpec, ...]:
    """One machine for each scenario. `available`: the real devices, as the worker found them.

    Raises `NotGradableHere` when this machine, or the exercise, cannot do what was asked; `UsageError` for a device
    that nobody knows.
    """
    here = Counter(str(device["kind"]) for device in available)
    kind, index = chosen(exercise, request.device, here)
    if kind == "cpu":
        return (MachineSpec("the CPU", "cpu", 0, 0, (), "", None),)
    return tuple(_machine(scenario, kind, index, here, request) for scenario in exercise.scenarios)


def seen_by_checks(machine: MachineSpec, available: Sequence[dict[str, object]]) -> Machine:
    """The machine as checks know it."""
    name, memory_bytes = _name_and_memory(machine, available)
    return Machine(
        scenario=machine.scenario,
        gpus=machine.gpus,
        device=machine.device,
        backends=machine.backends,
        virtual=machine.kind == "virtual",
        gpu_name=name,
        memory_bytes=memory_bytes,
    )


def in_key(exercise: Exercise, request: GradeRequest, available: Sequence[dict[str, object]]) -> str:
    """What `GradingKey.device` must be. Raises what `machines_for` does."""
    kind, index = chosen(exercise, request.device, Counter(str(device["kind"]) for device in available))
    if kind in ACCELERATORS:
        model = next(str(device["description"]) for device in available if device["name"] == f"{kind}:{index}")
    else:
        model = spec(request.gpu).name if request.gpu else ""
    return device_in_key(kind, model)


def _name_and_memory(machine: MachineSpec, available: Sequence[dict[str, object]]) -> tuple[str, int | None]:
    if machine.device == "cpu":
        return "", None
    if machine.kind == "virtual":
        gpu = spec(machine.gpu)
        return gpu.reported_name, gpu.memory_bytes if machine.memory_mib is None else machine.memory_mib << 20
    device = next(device for device in available if device["name"] == machine.device)
    memory_bytes = device["memory_bytes"]
    return str(device["description"]), memory_bytes if isinstance(memory_bytes, int) else None


def in_words(spec: MachineSpec, available: Sequence[dict[str, object]]) -> str:
    """`cuda:0, virtual T4`; `2 x virtual T4`; `no GPU, only the CPU`; `cuda:0, NVIDIA H200`."""
    if spec.kind != "virtual":
        described = [str(device["description"]) for device in available if device["name"] == spec.device]
        return f"{spec.device}, {described[0]}" if described else spec.device
    if spec.device == "cpu":
        others = [backend for backend in spec.backends if backend != "cuda"]
        return f"no CUDA GPU, {' and '.join(others)} reported" if others else "no GPU, only the CPU"
    return f"{spec.device}, virtual {spec.gpu}" if spec.gpus == 1 else f"{spec.gpus} x virtual {spec.gpu}"


def _machine(scenario: Scenario, kind: str, index: int, here: Counter[str], request: GradeRequest) -> MachineSpec:
    """The scenario on a real device where it can be had there, else on the virtual GPU."""
    wants_plain_gpus = scenario.gpus >= 1 and scenario.backends == ("cuda",) and scenario.memory_mib is None
    if kind != "virtual" and wants_plain_gpus and scenario.gpus <= here[kind] - index:
        return MachineSpec(scenario.name, kind, index, scenario.gpus, (kind,), "", None)
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
    gpu = spec(request.gpu or scenario.gpu).name
    return MachineSpec(scenario.name, "virtual", 0, gpus, scenario.backends, gpu, scenario.memory_mib)
