"""Races between streams, held against PyTorch's own sanitizer (torch.cuda._sanitizer) where there is a real GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from tests.unit.virtual.test_hazards import IN_ORDER, RACES

_OF_THE_HOST = ("host", "freed")
"""The sanitizer looks at streams only."""
SEEN_BY_BOTH = [program.__name__ for program, name, _, _ in RACES if not name.startswith(_OF_THE_HOST)]
_CHILD = """
import sys, torch
from tests.unit.virtual import test_hazards
getattr(test_hazards, sys.argv[1])(torch.cuda.Stream())
torch.cuda.synchronize()
"""


def sanitised(program: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, on the real GPU, under the sanitizer."""
    environment = {**os.environ, "TORCH_CUDA_SANITIZER": "1"}
    return subprocess.run(
        [sys.executable, "-c", _CHILD, program], capture_output=True, text=True, env=environment, timeout=120
    )


def test_the_sanitizer_and_the_virtual_gpu_have_races_and_twins_to_agree_on() -> None:
    assert len(SEEN_BY_BOTH) >= 6
    assert not {one.__name__ for one in IN_ORDER} & set(SEEN_BY_BOTH)


@pytest.mark.gpu
@pytest.mark.parametrize("program", SEEN_BY_BOTH)
def test_the_sanitizer_sees_the_same_race(program: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    assert "CSAN detected" in sanitised(program).stderr


@pytest.mark.gpu
@pytest.mark.parametrize("program", [one.__name__ for one in IN_ORDER])
def test_the_sanitizer_sees_none_in_the_twin(program: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    found = sanitised(program)
    assert found.returncode == 0, found.stderr
    assert "CSAN detected" not in found.stderr
