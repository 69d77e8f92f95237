"""Meters of real machines: a call and its trace have one clock."""

from __future__ import annotations

import torch

from gpututor.devices.recorder import Recorder
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.events import Kind
from gpututor.worker.machine import CallMeasurement, enter_machine

CPU = MachineSpec(Scenario("the CPU", 0, (), ""), "cpu", 0)


def test_the_work_of_a_call_lies_within_its_span() -> None:
    with enter_machine(CPU, __file__) as machine:
        recorder: Recorder = machine.recorder
        measurement = CallMeasurement(machine.meter)
        measurement.begin()
        product = torch.ones(8, 8) @ torch.ones(8, 8)
        measurement.returned(product)
        kernels = [event for event in recorder.complete() if event.kind is Kind.KERNEL]
    span = measurement.span
    assert len(kernels) >= 3
    assert 0 <= span["started"] <= min(event.launched for event in kernels)
    assert max(event.end for event in kernels) <= span["returned"] <= span["finished"]


def test_the_span_of_a_later_call_follows() -> None:
    with enter_machine(CPU, __file__) as machine:
        spans = []
        for _ in range(2):
            measurement = CallMeasurement(machine.meter)
            measurement.begin()
            measurement.returned(None)
            spans.append(measurement.span)
    assert spans[0]["finished"] <= spans[1]["started"]
