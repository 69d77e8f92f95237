"""Races on the virtual GPU, and what PyTorch's own sanitizer says of the same programs on a real one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Kind
from tests.fidelity.races import RACES
from tests.support import ROOT


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
