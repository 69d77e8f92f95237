"""No program of the corpus, whatever odd things it does, is suspected of tampering."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.checks.model import Call, MemoryUse, Run, Span
from gpututor.hardware.scenario import Scenario
from gpututor.judge.devices import to_machine
from gpututor.judge.suspicions import find_inconsistencies
from gpututor.protocol.messages import MachineSpec
from gpututor.worker.guard import TamperGuard
from gpututor.worker.machine import CallMeasurement, enter_machine
from tests.fidelity.program import Program, load_programs, outcome

SPEC = MachineSpec(Scenario("two GPUs", 2, ("cuda",), "H100"), "virtual", 0)
SOURCE = "\n" * 10_000
"""Text with as many lines as the corpus's files."""


@pytest.mark.parametrize("program", load_programs(), ids=lambda program: program.name)
def test_a_program_of_the_corpus_is_not_suspected(program: Program) -> None:
    with enter_machine(SPEC, program.run.__code__.co_filename) as machine:
        recorder = machine.recorder
        guard = TamperGuard(machine)
        measurement = CallMeasurement(machine.meter)
        measurement.begin()
        recorder.enabled = True
        outcome(program)
        torch.cuda.set_device(0)
        measurement.returned(None)
        guard.check_recorder(recorder.trace.limit or 0)
        recorder.enabled = False
        uses: dict[str, Any] = measurement.memory(left=False)
        memory = {device: MemoryUse(**use) for device, use in uses.items()}
        call = Call({}, {}, None, recorder.complete(), span=Span(**measurement.span), memory=memory)
        changed = guard.changed()
    run = Run(to_machine(SPEC, []), (call,), SOURCE, "run", ((call,),))
    assert find_inconsistencies(run, SPEC, changed) == ()
