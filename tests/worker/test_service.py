"""Torch's defaults before each submission, compiled code before each call, and a call's clock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.events import Kind
from gpututor.worker.machine import CallMeasurement, enter_machine
from gpututor.worker.service import _restore_defaults, forget_compiled


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    yield
    with torch.backends.__allow_nonbracketed_mutation():
        torch.backends.cudnn.allow_tf32 = before[0]
    torch.set_float32_matmul_precision(before[1])


def test_defaults_are_restored_with_global_flags_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore after `torch.backends.disable_global_flags()`, which PyTorch's test helpers call."""
    monkeypatch.setattr(torch.backends, "__allow_nonbracketed_mutation_flag", False)
    _restore_defaults(MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "cuda", 0))
    assert torch.backends.cudnn.allow_tf32 is False


@pytest.mark.parametrize(("kind", "allowed"), [("virtual", True), ("cpu", True), ("cuda", False)])
def test_tf32_convolutions_are_off_on_a_real_gpu(kind: str, allowed: bool) -> None:
    with torch.backends.__allow_nonbracketed_mutation():
        torch.backends.cudnn.allow_tf32 = not allowed
    torch.set_float32_matmul_precision("medium")
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)

    _restore_defaults(MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), kind, 0))

    assert torch.backends.cudnn.allow_tf32 is allowed
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32


def test_code_is_compiled_again_after_it_was_forgotten() -> None:
    compiled = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        compiled.append(graph)
        return graph.forward

    double = torch.compile(lambda x: 2 * x, backend=backend)
    for _ in range(2):
        double(torch.ones(3))
    assert len(compiled) == 1
    forget_compiled()
    double(torch.ones(3))
    assert len(compiled) == 2


def test_a_call_that_compiles_nothing_does_not_import_inductor() -> None:
    code = (
        "import sys, torch._dynamo\n"
        "from gpututor.devices.virtual import virtual_gpu\n"
        "from gpututor.worker.service import forget_compiled\n"
        "with virtual_gpu():\n    forget_compiled()\n"
        "print('torch._inductor.compile_fx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


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
