"""What a call holds at its peak, and what stays behind it."""

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
from tests.support.check_runs import GPU, found, run_of
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


def test_pieces_pass_where_all_at_once_does_not_and_the_line_of_the_peak_is_told() -> None:
    check = memory(peak=2 * MIB)

    assert check.find(recorded(PIECES, {"parts": 8})) is None
    finding = found(check, recorded(AT_ONCE, {"parts": 8}))
    assert finding.expected == "at most 2,097,152 bytes (2.00 MiB) at the peak"
    assert finding.got.startswith("9,437,184 bytes (9.00 MiB) on cuda:0, reached at line 4 when it took 1.00 MiB")
    assert finding.line == 4


def test_a_peak_may_be_a_range_and_follow_from_what_was_drawn() -> None:
    run = recorded(AT_ONCE, {"parts": 3})

    assert memory(peak=lambda drawn, machine: (drawn["parts"] * MIB, 4 * MIB)).find(run) is None
    assert found(memory(peak=(5 * MIB, 9 * MIB)), run).expected.startswith("5,242,880 bytes (5.00 MiB) to 9,437,184")


def test_a_peak_may_be_held_against_that_of_a_baseline() -> None:
    check = memory(peak_ratio=1.5)
    baseline = {"baseline.py": recorded(PIECES, {"parts": 2}, {"parts": 8}).calls}

    right = replace(recorded(PIECES, {"parts": 2}, {"parts": 8}), baselines=baseline)
    wrong = replace(recorded(AT_ONCE, {"parts": 2}, {"parts": 8}), baselines=baseline)
    assert check.find(right) is None
    assert "1.5 × the baseline's 2.00 MiB" in found(check, wrong).expected
    assert make_run_plan([check], GPU).baselines == ("baseline.py",)
    assert make_run_plan([memory(peak=1)], GPU).baselines == ()
    with pytest.raises(CourseError, match="was not run"):
        check.find(recorded(PIECES, {"parts": 2}))


@pytest.mark.parametrize(
    ("kept", "line"), [("loss.item()", None), ("loss.detach().cpu()", None), ("loss", 7), ("loss.detach().clone()", 10)]
)
def test_a_training_step_that_keeps_its_loss_leaks_and_one_that_keeps_a_number_does_not(
    kept: str, line: int | None
) -> None:
    finding = memory(left=0).find(recorded(TRAINS.replace("{kept}", kept), X, repeats=3))

    if line is None:
        assert finding is None  # the optimiser's state stays, from the first call on
        return
    assert finding is not None
    assert finding.got.startswith("each call leaves ")
    assert finding.line == line
    assert f"line {line}" in finding.got


def test_a_meter_that_was_reset_hides_no_peak() -> None:
    check = memory(peak=2 * MIB)
    resets = AT_ONCE.replace(
        "    return total", "    del all_parts, part\n    torch.cuda.reset_peak_memory_stats()\n    return total"
    )

    finding = found(check, recorded(resets, {"parts": 8}))

    assert finding.got.startswith("9,437,184 bytes (9.00 MiB) on cuda:0, reached at line 4")


def test_leaks_up_to_an_amount_are_allowed() -> None:
    run = recorded(TRAINS.replace("{kept}", "loss.detach().clone()"), X, repeats=3)

    assert memory(left=512).find(run) is None
    assert memory(left=511).find(run) is not None


def test_a_check_for_leaks_asks_for_three_calls_and_for_what_is_left() -> None:
    plan = make_run_plan([memory(left=0)], GPU)

    assert (plan.repeats, plan.wants) == (3, ("left",))
    assert make_run_plan([memory(peak=1)], GPU).wants == ()


def held(*uses: tuple[int, int, int | None], machine: Any = GPU) -> Run:
    """Calls with equal inputs: (before, peak, left)."""
    run = run_of(None, {}, machine=machine)
    calls = tuple(
        replace(run.calls[0], memory={"cuda:0": MemoryUse(before, peak, peak, left)}) for before, peak, left in uses
    )
    return replace(run, calls=calls[:1], repeated=(calls,))


def test_the_peak_counts_from_what_was_held_before() -> None:
    assert memory(peak=10).find(held((100, 110, None))) is None
    assert memory(peak=9).find(held((100, 110, None))) is not None


def test_every_call_on_the_virtual_gpu_counts_and_on_a_real_one_those_after_the_first() -> None:
    uses = (0, 90, None), (0, 10, None)

    assert memory(peak=10).find(held(*uses)) is not None
    assert memory(peak=10).find(held(*uses, machine=replace(GPU, virtual=False))) is None


def test_less_than_before_is_no_leak() -> None:
    assert memory(left=0).find(held((0, 9, 9), (0, 9, 9), (0, 9, 5))) is None


def unknown(check: Check, run: Run) -> bool:
    return found(check, run).status is Status.INCONCLUSIVE


def test_what_nobody_knows_is_inconclusive() -> None:
    assert unknown(memory(left=0), held((0, 9, None), (0, 9, None), (0, 9, None)))
    assert unknown(memory(left=0), held((0, 9, 0)))
    assert unknown(memory(peak=9), run_of(None))
    assert unknown(memory(peak=9), held((0, 9, 0), machine=replace(GPU, device="mps:0", virtual=False)))


def test_the_peak_is_shown_where_it_is_right() -> None:
    check = memory(peak=2 * MIB)
    assert check.measured is not None
    assert check.measured(recorded(PIECES, {"parts": 2})) == "2.00 MiB at the peak"


def test_odd_limits_are_the_authors_fault() -> None:
    with pytest.raises(CourseError, match="nothing to ask"):
        memory()
    with pytest.raises(CourseError, match="a ratio of 0"):
        memory(peak_ratio=0)
    with pytest.raises(CourseError, match="no amount"):
        memory(peak=1.5).find(run_of(None))  # type: ignore[arg-type]
