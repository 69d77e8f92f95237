"""How it is known where tensors lived is told as it is: the driver has to know the worker to support it."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks.model import Call, MemoryUse, Run
from gpututor.hardware.scenario import Scenario
from gpututor.judge import devices
from gpututor.judge.devices import to_machine
from gpututor.judge.grader import placement_of
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.columns import Trace

VIRTUAL = MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0)
WORKER = 4242


class Driver:
    """As libnvidia-ml answers, with processes on its GPUs."""

    def __init__(self, processes: list[list[tuple[int, int]]]) -> None:
        self._processes = processes

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlShutdown(self) -> int:
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:
        text.value = b"550.54.15"
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self._processes)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        device._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, device: Any, count: Any, infos: Any) -> int:
        known = self._processes[device.value - 1]
        if len(known) > count._obj.value:
            return 7
        for place, (pid, used) in enumerate(known):
            infos[place].pid, infos[place].usedGpuMemory = pid, used
        count._obj.value = len(known)
        return 0


def _with_driver(patch: pytest.MonkeyPatch, *processes: list[tuple[int, int]]) -> None:
    patch.setattr(ctypes, "CDLL", lambda name: Driver(list(processes)))


def _run(spec: MachineSpec, held: int = 1000) -> Run:
    call = Call({}, {}, None, Trace(), memory={"cuda:0": MemoryUse(0, held, held)})
    return Run(to_machine(VIRTUAL, []), (call,), "", "work")


def test_the_trace_of_a_virtual_gpu_tells() -> None:
    assert placement_of(_run(VIRTUAL), VIRTUAL, WORKER) == "traced"


def test_nothing_is_known_of_what_did_not_run() -> None:
    assert placement_of(replace(_run(VIRTUAL), calls=()), VIRTUAL, WORKER) == ""


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        ([[(1, 5000), (WORKER, 600)], [(WORKER, 600)]], "corroborated"),
        ([[(WORKER, 999)]], "self-reported"),
        ([[(1, 5000)]], "self-reported"),
        ([[(WORKER, (1 << 64) - 1)]], "self-reported"),
        ([[(number, 1) for number in range(100)] + [(WORKER, 2000)]], "corroborated"),
        ([], "self-reported"),
    ],
)
def test_the_driver_supports_what_it_knows_of(
    monkeypatch: pytest.MonkeyPatch, processes: list[list[tuple[int, int]]], expected: str
) -> None:
    _with_driver(monkeypatch, *processes)
    real = replace(VIRTUAL, kind="cuda")
    assert placement_of(_run(real), real, WORKER) == expected


@pytest.mark.parametrize("kind", ["mps", "xpu", "cpu"])
def test_other_devices_have_no_witness(kind: str) -> None:
    real = replace(VIRTUAL, kind=kind)
    assert placement_of(_run(real), real, WORKER) == "self-reported"


def test_without_a_driver_nothing_supports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    real = replace(VIRTUAL, kind="cuda")
    assert placement_of(_run(real), real, WORKER) == "self-reported"
    assert devices.driver_version() == ""


def test_the_version_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_driver(monkeypatch)
    assert devices.driver_version() == "550.54.15"


def test_the_structure_is_as_large_as_the_drivers() -> None:
    assert ctypes.sizeof(devices._ProcessInfo) == 24


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_real_driver_has_a_version() -> None:
    assert devices.driver_version()
