"""Checks of Triton kernels follow from the traffic and the hazards of the trace."""

from __future__ import annotations

from typing import Any

import pytest

from gpututor.checks import coalesced, in_bounds, no_races, programs, races, traffic
from gpututor.grading.report import Status
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.hazards import OUT_OF_BOUNDS, SAME_ELEMENT, UNWRITTEN
from tests.support.check_runs import GPU, NO_GPU, failure, run_of

MIB = 1 << 20


def kernels(*rows: tuple[int, int, int, int], programs: int = 64) -> Trace:
    """Return a trace of kernels: (bytes of tensors, asked for, moved, line)."""
    trace = Trace()
    for least, requested, moved, line in rows:
        figures: dict[str, Any] = {"size_bytes": least, "requested": requested, "moved": moved, "programs": programs}
        trace.add(Kind.KERNEL, "copy", "cuda:0", line=line, file="work.py", **figures)
    return trace


def hazard(name: str) -> Trace:
    trace = Trace()
    trace.add(Kind.HAZARD, name, "cuda:0", line=9, file="work.py")
    return trace


def test_each_kernel_counts_with_its_own_tensors_and_the_worst_decides() -> None:
    run = run_of(None, trace=kernels((MIB, MIB, MIB, 3), (MIB, MIB, 4 * MIB, 5)))

    assert coalesced(at_least=0.25).find(run) is None
    finding = failure(coalesced(at_least=0.5), run)
    assert finding.line == 5
    assert "50 %" in finding.expected
    assert "25 %" in finding.got
    assert finding.status is Status.FAILED
    run = run_of(None, trace=kernels((MIB, MIB, MIB, 3), (MIB, 2 * MIB, 2 * MIB, 5)))

    assert traffic(at_most=2).find(run) is None
    finding = failure(traffic(at_most=1.5), run)
    assert finding.line == 5
    assert "2.00 ×" in finding.got
    run = run_of(None, trace=kernels((8, 8, 64, 3)))

    assert traffic(at_most=1).find(run) is None
    assert coalesced(at_least=1).find(run) is None


def test_each_kernel_starts_as_many_programs_as_the_call_needs() -> None:
    run = run_of(None, trace=kernels((MIB, MIB, MIB, 3), programs=4))
    assert programs(4).find(run) is None
    finding = failure(programs(lambda drawn, machine: 4 + machine.gpus), run)
    assert (finding.line, finding.got) == (3, "copy starts 4 programs")


@pytest.mark.parametrize(
    "check", [coalesced(at_least=0.5), traffic(at_most=2), programs(1)], ids=lambda check: check.name
)
def test_a_call_without_a_triton_kernel_fails(check: Any) -> None:
    assert failure(check, run_of(None)).got == "none"
    finding = failure(check, run_of(None, trace=kernels((MIB, 0, 0, 4), programs=0)))
    assert finding.line == 4


@pytest.mark.parametrize(
    ("name", "failing", "passing"),
    [
        (OUT_OF_BOUNDS, in_bounds(), no_races()),
        (UNWRITTEN, in_bounds(), no_races()),
        (SAME_ELEMENT, no_races(), in_bounds()),
        (SAME_ELEMENT, no_races(), races()),
        ("write after write", races(), no_races()),
    ],
)
def test_each_hazard_belongs_to_one_check(name: str, failing: Any, passing: Any) -> None:
    run = run_of(None, trace=hazard(name))

    finding = failure(failing, run)
    assert finding.line == 9
    assert finding.advice
    assert passing.find(run) is None


@pytest.mark.parametrize("check", [in_bounds(), no_races(), coalesced(at_least=1), traffic(at_most=1)])
def test_kernels_are_judged_on_virtual_gpus_only(check: Any) -> None:
    assert check.applies(GPU)
    assert not check.applies(NO_GPU)
