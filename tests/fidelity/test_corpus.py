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
from gpututor.judge.suspicions import find_inconsistencies
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.events import Kind
from gpututor.worker.guard import TamperGuard
from gpututor.worker.machine import CallMeasurement, enter_machine
from tests.fidelity.program import Outcome, Program, alike, as_expected, load_programs, outcome
from tests.fidelity.races import RACES
from tests.support import ROOT

PROGRAMS = load_programs()
GPUS = 2


def on_the_virtual_gpu(program: Program) -> tuple[Outcome, int]:
    """Return the outcome of a program there, and the number of waits of the host."""
    recorder = Recorder([program.run.__code__.co_filename])
    with virtual_gpu(GPUS, "H100", obey_environment=False, recorder=recorder):
        actual = outcome(program)
    lines = [event for event in recorder.trace if event.kind is Kind.SYNCHRONISE and event.line is not None]
    return actual, len(lines)


def on_the_real_gpu(program: Program) -> tuple[Outcome, int]:
    """Do the same on the machine's GPU; CUDA's debugging aid counts the waits."""
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


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_virtual_gpu_does_what_cuda_does(program: Program) -> None:
    actual, waits = on_the_virtual_gpu(program)
    assert as_expected(actual, program.expected), f"here {actual}\nCUDA  {program.expected}\nsource: {program.source}"
    assert program.waits in (None, waits), f"the host waited {waits} times, on CUDA {program.waits}: {program.source}"
    assert "meta" not in actual.error.lower()


@pytest.mark.gpu
def test_a_real_gpu_and_the_virtual_one_do_the_same_side_by_side() -> None:
    if torch.cuda.device_count() < GPUS:
        pytest.skip(f"needs {GPUS} CUDA GPUs")
    apart = []
    for program in PROGRAMS:
        real, waits = on_the_real_gpu(program)
        virtual, _ = on_the_virtual_gpu(program)
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
    assert (real.data_ptr(), (real + 1).tolist()) == (address, [2.0, 2.0, 2.0])
    assert torch.ones(1, device="cuda").data_ptr()


def test_the_corpus_is_wide_and_each_program_says_where_it_is_known_from() -> None:
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
