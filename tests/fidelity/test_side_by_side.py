"""Programs on a real GPU and on the virtual one: counts, memory and verdicts are the same on both."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from tests.fidelity.program import Outcome, as_expected, load_programs
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
