"""Runs of small programs on the virtual GPU, observed as a worker observes them, for tests of checks."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import torch

from gpututor.checks.model import Call, MemoryUse, Run, Span
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.messages import MachineSpec
from gpututor.worker.machine import CallMeasurement, EnteredMachine, enter_machine
from tests.support.check_runs import GPU

_numbers = count()


def recorded(source: str, *drawn: dict[str, Any], repeats: int = 1) -> Run:
    """Call the function `work` of `source` with each of `drawn`, `repeats` times, and return the run."""
    file = f"/learner/work_{next(_numbers)}.py"
    spec = MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0)
    with enter_machine(spec, file) as machine:
        machine.recorder.enabled = False
        space: dict[str, Any] = {}
        exec(compile(source, file, "exec"), space)
        repeated = tuple(
            tuple(_call(machine, space["work"], inputs) for _ in range(repeats)) for inputs in drawn or ({},)
        )
    firsts = tuple(calls[0] for calls in repeated)
    return Run(replace(GPU, scenario=spec.scenario, gpu_name="T4"), firsts, source, "work", repeated)


def _call(machine: EnteredMachine, function: Any, drawn: dict[str, Any]) -> Call:
    recorder = machine.recorder
    before = len(recorder.complete())
    arguments = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in drawn.items()}
    measurement = CallMeasurement(machine.meter)
    measurement.begin()
    recorder.enabled = True
    try:
        output = function(**arguments)
        measurement.returned(output)
    finally:
        recorder.enabled = False
    del output
    memory: Any = measurement.memory(left=True)
    trace = recorder.complete().since(before)
    uses = {device: MemoryUse(**use) for device, use in memory.items()}
    return Call(drawn, {}, None, trace, span=Span(**measurement.span), memory=uses)
