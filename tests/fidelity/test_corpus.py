"""Small programs whose behavior on CUDA is known, on the virtual GPU and on a real one; none of them is suspected."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks.model import Call, MemoryUse, Run, Span
from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.hardware.scenario import Scenario
from gpututor.judge.devices import to_machine
from gpututor.judge.inconsistencies import find_inconsistencies
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.events import Kind
from gpututor.worker.guard import TamperGuard
from gpututor.worker.machine import CallMeasurement, enter_machine
from tests.fidelity.program import Outcome, Program, alike, as_expected, load_programs, outcome
from tests.fidelity.races import RACES
from tests.fidelity.side_by_side import (
    WORKLOADS,
    Figures,
    Workload,
    apart,
    model_of,
    needs_two_gpus,
    on_real,
    on_real_in_processes,
    on_virtual,
)
from tests.support import ROOT

PROGRAMS = load_programs()
GPUS = 2


def on_the_real_gpu(program: Program) -> tuple[Outcome, int]:
    """Return the outcome of a program there, and the number of waits of the host, which CUDA's debugging aid counts."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            actual = outcome(program)
        finally:
            torch.cuda.set_sync_debug_mode("default")
            torch.cuda.set_device(0)
    words = "called a synchronizing CUDA operation"
    warned = [*actual.warned, *(str(warning.message) for warning in caught)]
    waits = sum(words in text for text in warned)
    return replace(actual, warned=tuple(text for text in actual.warned if words not in text)), waits


@pytest.mark.gpu
def test_a_real_and_a_virtual_gpu_do_the_same_side_by_side() -> None:
    if torch.cuda.device_count() < GPUS:
        pytest.skip(f"needs {GPUS} CUDA GPUs")
    apart = []
    for program in PROGRAMS:
        real, waits = on_the_real_gpu(program)
        virtual = on_virtual(program, gpus=GPUS).result
        if not as_expected(real, program.expected) or program.waits not in (None, waits):
            apart.append(f"{program.name}\n  real     {real}, {waits} waits\n  virtual  {virtual}\n  {program.source}")
    assert not apart, "\n".join(apart)


@pytest.mark.gpu
def test_real_tensors_pass_the_virtual_gpu_untouched() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    real = torch.ones(3, device="cuda")
    address = real.data_ptr()
    with virtual_gpu(GPUS):
        virtual = torch.ones(3, device="cuda")
        assert virtual.data_ptr() != address
        learned = real.clone().requires_grad_()
        learned.max(dim=0).values.backward()  # makes zeros from C++
        assert learned.grad is not None
    assert sorted(learned.grad.tolist()) == [0.0, 0.0, 1.0]
    assert (real.data_ptr(), (real + 1).tolist()) == (address, [2.0, 2.0, 2.0])
    assert torch.ones(1, device="cuda").data_ptr()


def test_the_corpus_is_wide_and_each_program_names_its_source() -> None:
    assert len(PROGRAMS) >= 120
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names)
    assert all("/" in program.source or "." in program.source for program in PROGRAMS)
    assert len({program.run.__module__ for program in PROGRAMS}) >= 10


def test_the_corpus_can_fail() -> None:
    expected = Outcome(512, "RuntimeError: a … c", ("UserWarning: w",))
    assert as_expected(Outcome(512, "RuntimeError: a b c", ("UserWarning: w",)), expected)
    assert not as_expected(Outcome(513, "RuntimeError: a b c", ("UserWarning: w",)), expected)
    assert not as_expected(Outcome(512, "RuntimeError: a b c", ()), expected)
    assert not alike("ValueError: a b c", expected.error)
    assert not alike("RuntimeError: a b c d", expected.error)


@pytest.mark.parametrize("name", RACES)
def test_the_virtual_gpu_finds_each_race_and_no_other(name: str) -> None:
    program, hazard = RACES[name]
    recorder = Recorder([program.__code__.co_filename])
    with virtual_gpu(1, "H100", obey_environment=False, recorder=recorder):
        kept = program(torch.cuda.Stream())
        torch.cuda.synchronize()
        del kept
    hazards = [event.name for event in recorder.complete() if event.kind is Kind.HAZARD]
    assert hazards == ([hazard] if hazard else [])


@pytest.mark.gpu
@pytest.mark.parametrize("name", RACES)
def test_the_sanitizer_says_the_same_on_a_real_gpu(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fidelity.races", name],
        cwd=ROOT,
        env={**os.environ, "TORCH_CUDA_SANITIZER": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    raced = "CSAN detected a possible data race" in ended.stderr
    assert raced == bool(RACES[name][1]), ended.stderr
    assert raced or ended.returncode == 0, ended.stderr


SPEC = MachineSpec(Scenario("two GPUs", 2, ("cuda",), "H100"), "virtual", 0)
SOURCE = "\n" * 10_000
"""Text with as many lines as the corpus's files."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_virtual_gpu_does_what_cuda_does_and_suspects_no_program(program: Program) -> None:
    with enter_machine(SPEC, program.run.__code__.co_filename) as machine:
        recorder = machine.recorder
        guard = TamperGuard(machine)
        measurement = CallMeasurement(machine.meter)
        measurement.begin()
        recorder.enabled = True
        actual = outcome(program)
        torch.cuda.set_device(0)
        measurement.returned(None)
        guard.check_recorder(recorder.trace.limit or 0)
        recorder.enabled = False
        uses: dict[str, Any] = measurement.memory(left=False)
        memory = {device: MemoryUse(**use) for device, use in uses.items()}
        call = Call({}, {}, None, recorder.complete(), span=Span(**measurement.span), memory=memory)
        changed = guard.changed()
    assert as_expected(actual, program.expected), f"here {actual}\nCUDA  {program.expected}\nsource: {program.source}"
    waits = sum(event.kind is Kind.SYNCHRONISE and event.line is not None for event in call.trace)
    assert program.waits in (None, waits), f"the host waited {waits} times, on CUDA {program.waits}: {program.source}"
    assert "meta" not in actual.error.lower()
    run = Run(to_machine(SPEC, []), (call,), SOURCE, "run", ((call,),))
    assert find_inconsistencies(run, SPEC, changed) == ()


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_workload_copies_and_waits_as_on_cuda_each_time(workload: Workload) -> None:
    figures = on_virtual(workload.program)
    assert figures.result.error == ""
    assert (len(figures.to_device), len(figures.to_host), len(figures.waits)) == (
        workload.to_device,
        workload.to_host,
        workload.waits,
    ), figures
    assert (figures.allocated, figures.between) == (0, ())
    assert apart(figures, on_virtual(workload.program)) == []


def test_differences_are_listed() -> None:
    left = Figures(Outcome(1.0), ("aten::mm",), (16,), (4,), (), ("aten::_local_scalar_dense",), 512, 2**21, 1024)
    assert apart(left, left) == []
    for name, right in {
        "result": Outcome(2.0),
        "kernels": ("aten::mm", "aten::add"),
        "to_device": (8,),
        "to_host": (),
        "between": (4,),
        "waits": (),
        "allocated": 0,
        "reserved": 0,
        "peak": 0,
    }.items():
        assert len(apart(left, replace(left, **{name: right}))) == 1, name  # type: ignore[arg-type]
    assert apart(left, replace(left, kernels=("aten::addmm",))) == []
    assert apart(replace(left, kernels=("cuda graph",)), replace(left, kernels=("aten::mul", "aten::add"))) == []
    assert apart(left, replace(left, reserved=0, peak=0), multiplies=True) == []


def test_the_model_of_a_gpu_is_its_own_or_any() -> None:
    assert model_of("Tesla T4") == "T4"
    assert model_of("???") == "H100"


def test_programs_for_two_gpus_are_known() -> None:
    named = {program.name: program for program in PROGRAMS}
    assert needs_two_gpus(named["mixing-a_sum_of_two_gpus"])
    assert needs_two_gpus(named["streams-streams_of_two_gpus_are_not_equal"])
    assert not needs_two_gpus(named["mixing-a_sum_of_gpu_and_cpu"])


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_workload_does_the_same_on_a_real_gpu(workload: Workload) -> None:
    model = model_of(torch.cuda.get_device_name())
    real, virtual = on_real(workload.program), on_virtual(workload.program, model)
    assert apart(real, virtual, multiplies=workload.multiplies) == [], "real against virtual"


@pytest.mark.gpu
@needs_gpu
def test_the_corpus_counts_the_same_on_a_real_gpu() -> None:
    gpus, model = min(torch.cuda.device_count(), 2), model_of(torch.cuda.get_device_name())
    differences = []
    breaking = [program for program in PROGRAMS if program.breaks]
    known = dict(zip((program.name for program in breaking), on_real_in_processes(breaking), strict=True))
    for program in PROGRAMS:
        virtual = on_virtual(program, model, gpus)
        if gpus < 2 and not as_expected(virtual.result, program.expected) and needs_two_gpus(program):
            continue
        real = known.get(program.name) or on_real(program)
        if as_expected(real.result, program.expected) and as_expected(virtual.result, program.expected):
            virtual = replace(virtual, result=real.result)  # texts may differ, as in the amount of memory
        # Matrix products' workspaces come and go here: memory has programs of its own, which return what they saw.
        lines = apart(replace(real, allocated=virtual.allocated), virtual, multiplies=True)
        if lines:
            differences.append("\n  ".join([f"{program.name}: real against virtual", *lines, program.source]))
        torch.cuda.set_device(0)
    assert not differences, "\n".join(differences)


@pytest.mark.gpu
@needs_gpu
def test_small_pieces_of_work_are_timed_on_both(capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from calibrate_gpu import report
        from micro import CudaTimer, calibration_cases, measure, modelled, other_cases
    finally:
        del sys.path[0]
    cases = [*calibration_cases(), *other_cases()]
    measured = measure(CudaTimer(rounds=1), cases)
    with capsys.disabled():
        print("\n" + "\n".join(report(measured, modelled(model_of(torch.cuda.get_device_name()), cases))))
    # A half of the cases may be too large for the GPU, or without kernels there.
    assert len(measured) > len(cases) / 2
    assert all(seconds > 0 for seconds in measured.values())
