"""No call ends its process: each gives the right result, or an error with a message."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gpututor.devices.virtual import virtual_gpu
from tests.support import ROOT

_SECONDS = 600


def _children(module: str) -> tuple[list[str], list[str]]:
    """Run the calls in children; return their names and faults. After a crash, another child continues."""
    ran: list[str] = []
    wrong: list[str] = []
    number = 0
    while True:
        command = [sys.executable, "-m", f"tests.hostile.virtual.{module}", str(number)]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False)
        started = ""
        for line in child.stdout.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "start":
                started = rest
                ran.append(rest.split(" ", 1)[1])
            elif kind == "end":
                if rest:
                    wrong.append(f"{started}: {rest[:300]}")
                started = ""
            elif kind == "done":
                return ran, wrong
        assert started, child.stderr[-2000:]
        wrong.append(f"{started}: the process died with {child.returncode}: {child.stderr[-300:]}")
        number = int(started.split(" ", 1)[0]) + 1


def test_every_refused_and_every_hostile_call_is_answered_in_words() -> None:
    ran, wrong = _children("run")
    assert not wrong, "\n".join(wrong)
    assert len(ran) == len(set(ran)) > 250
    assert "refused torch.cuda.CUDAPluggableAllocator" in ran
    assert "views_as_strided_beyond" in ran


@pytest.mark.long
def test_no_operator_ends_the_process_whatever_it_is_called_with() -> None:
    ran, wrong = _children("every_operator")
    assert not wrong, "\n".join(wrong)
    assert len(ran) > 15_000


def test_a_result_on_another_device_than_the_arguments_is_refused() -> None:
    ones = torch.ones(2, 2, dtype=torch.int64)
    with (
        virtual_gpu(1),
        pytest.raises(RuntimeError, match=r"on the same device, but found at least two devices, cuda:0 and cpu!"),
    ):
        torch.ops.aten.bitwise_and.Scalar_Tensor_out(1, ones, out=ones.cuda())
    with virtual_gpu(1), pytest.raises(RuntimeError, match=r"tensors to be on the same device"):
        torch.mm(ones, ones, out=ones.cuda())
