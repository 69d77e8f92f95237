"""Memory: the peak of a call, and memory that remains after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks import memory
from gpututor.checks.model import Check, MemoryUse, Run
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.judge.runner import make_run_plan
from tests.support.check_runs import GPU, failure, run_of
from tests.support.recorded_programs import recorded

MIB = 1 << 20
PIECES = """import torch
def work(parts):
    total = torch.zeros(1 << 18, device="cuda")
    for _ in range(parts):
        part = torch.ones(1 << 18, device="cuda")
        total += part
        del part
    return total
"""
AT_ONCE = """import torch
def work(parts):
    all_parts = [torch.ones(1 << 18, device="cuda") for _ in range(parts)]
    total = torch.zeros(1 << 18, device="cuda")
    for part in all_parts:
        total += part
    return total
"""
TRAINS = """import torch
model = torch.nn.Linear(64, 64, device="cuda")
optimiser = torch.optim.Adam(model.parameters())
losses = []
def work(x):
    optimiser.zero_grad()
    loss = model(x.cuda()).square().mean()
    loss.backward()
    optimiser.step()
    losses.append({kept})
    return loss
"""
X = {"x": torch.ones(8, 64)}


def test_the_peak_is_limited_and_its_line_is_reported() -> None:
    check = memory(peak=2 * MIB)
    right = recorded(PIECES, {"parts": 8})

    assert check.find(right) is None
    assert check.measured is not None
    assert check.measured(right) == "2.00 MiB at the peak"
    finding = failure(check, recorded(AT_ONCE, {"parts": 8}))
    assert "2,097,152 bytes (2.00 MiB)" in finding.expected
    assert finding.got.startswith("9,437,184 bytes (9.00 MiB) on cuda:0, ")
    assert finding.line == 4


def test_a_peak_can_be_a_range_and_depend_on_the_inputs() -> None:
    run = recorded(AT_ONCE, {"parts": 3})

    assert memory(peak=lambda drawn, machine: (drawn["parts"] * MIB, 4 * MIB)).find(run) is None
    assert "5.00 MiB) to 9,437,184" in failure(memory(peak=(5 * MIB, 9 * MIB)), run).expected


def test_a_peak_can_be_compared_with_a_baselines() -> None:
    check = memory(peak_ratio=1.5)
    baseline = {"baseline.py": recorded(PIECES, {"parts": 2}, {"parts": 8}).calls}

    right = replace(recorded(PIECES, {"parts": 2}, {"parts": 8}), baselines=baseline)
    wrong = replace(recorded(AT_ONCE, {"parts": 2}, {"parts": 8}), baselines=baseline)
    assert check.find(right) is None
    assert "2.00 MiB" in failure(check, wrong).expected
    assert make_run_plan([check], GPU).baselines == ("baseline.py",)
    assert make_run_plan([memory(peak=1)], GPU).baselines == ()
    with pytest.raises(CourseError, match="was not run"):
        check.find(recorded(PIECES, {"parts": 2}))


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        ("loss.item()", None),
        ("loss", 7),
        pytest.param("loss.detach().cpu()", None, marks=pytest.mark.long),
        pytest.param("loss.detach().clone()", 10, marks=pytest.mark.long),
    ],
)
def test_keeping_the_loss_tensor_leaks_and_keeping_a_number_does_not(kept: str, line: int | None) -> None:
    finding = memory(left=0).find(recorded(TRAINS.replace("{kept}", kept), X, repeats=3))

    if line is None:
        assert finding is None  # the optimiser's state stays, from the first call on
        return
    assert finding is not None
    assert finding.got.startswith("each call leaves ")
    assert finding.line == line
    assert f"line {line}" in finding.got


def test_resetting_the_peak_statistics_hides_no_peak() -> None:
    resets = AT_ONCE.replace(
        "    return total", "    del all_parts, part\n    torch.cuda.reset_peak_memory_stats()\n    return total"
    )
    finding = failure(memory(peak=2 * MIB), recorded(resets, {"parts": 8}))

    assert "9.00 MiB" in finding.got
    assert finding.line == 4


def test_leaks_up_to_an_amount_are_allowed_in_three_calls() -> None:
    run = recorded(TRAINS.replace("{kept}", "loss.detach().clone()"), X, repeats=3)
    plan = make_run_plan([memory(left=512)], GPU)

    assert memory(left=512).find(run) is None
    assert memory(left=511).find(run) is not None
    assert (plan.repeats, plan.wants) == (3, ("left",))
    assert make_run_plan([memory(peak=1)], GPU).wants == ()


def held(*uses: tuple[int, int, int | None], machine: Any = GPU) -> Run:
    """Return calls with equal inputs: (before, peak, left)."""
    run = run_of(None, {}, machine=machine)
    calls = tuple(
        replace(run.calls[0], memory={"cuda:0": MemoryUse(before, peak, peak, left)}) for before, peak, left in uses
    )
    return replace(run, calls=calls[:1], repeated=(calls,))


def test_the_peak_is_relative_and_of_the_first_call_on_virtual_gpus() -> None:
    assert memory(peak=10).find(held((100, 110, None))) is None
    assert memory(peak=9).find(held((100, 110, None))) is not None
    uses = (0, 90, None), (0, 10, None)

    assert memory(peak=10).find(held(*uses)) is not None
    assert memory(peak=10).find(held(*uses, machine=replace(GPU, virtual=False))) is None
    assert memory(left=0).find(held((0, 9, 9), (0, 9, 9), (0, 9, 5))) is None


@pytest.mark.parametrize(
    ("check", "run"),
    [
        (memory(left=0), held((0, 9, None), (0, 9, None), (0, 9, None))),
        (memory(left=0), held((0, 9, 0))),
        (memory(peak=9), run_of(None)),
        (memory(peak=9), held((0, 9, 0), machine=replace(GPU, device="mps:0", virtual=False))),
    ],
)
def test_unknown_memory_is_inconclusive(check: Check, run: Run) -> None:
    assert failure(check, run).status is Status.INCONCLUSIVE
