"""Overlap follows from the trace's times, and races from its hazards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks import overlap, races
from gpututor.grading.report import Status
from gpututor.judge.verdicts import implicit_verdicts
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import GPU, NO_GPU, failure, observed, run_of
from tests.support.recorded_programs import recorded

LOADER = """import torch
def work(own):
    parts = [torch.ones(1 << 20).pin_memory() for _ in range(6)]
    side = torch.cuda.Stream() if own else torch.cuda.current_stream()
    torch.cuda._sleep(2_000_000)
    for part in parts:
        with torch.cuda.stream(side):
            moved = part.to("cuda", non_blocking=True)
        torch.cuda._sleep(2_000_000)
        torch.cuda.current_stream().wait_stream(side)
        moved.record_stream(torch.cuda.current_stream())
        moved + 1
"""
STREAMS = """import torch
def work(streams):
    x = torch.ones(64, 64, device="cuda")
    torch.cuda.synchronize()
    sides = [torch.cuda.Stream() for _ in range(streams)]
    for side in sides:
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
    if streams == 1:
        torch.cuda._sleep(1_000_000)
        torch.cuda.current_stream().wait_stream(sides[0])
"""


def trace_of(*events: tuple[Any, ...]) -> Trace:
    """Return a trace of (up, down, wait, kernel or its stream; start; end; line; launch, when it is not the start)"""
    trace = Trace()
    for what, start, end, line, *launch in events:
        launched = launch[0] if launch else max(start, 0)
        times = {"launched": launched, "start": start, "end": end, "line": line, "file": "work.py"}
        if what in ("up", "down"):
            source, target = ("cpu", "cuda:0") if what == "up" else ("cuda:0", "cpu")
            trace.add(Kind.TRANSFER, "aten::_to_copy", "cuda:0", source=source, target=target, size_bytes=8, **times)
        elif what == "wait":
            trace.add(Kind.SYNCHRONISE, "torch.cuda.synchronize", "cuda:0", **times)
        else:
            device, stream = what
            trace.add(Kind.KERNEL, "aten::mm", device, stream=stream, **times)
    return trace


def test_copies_must_be_on_another_stream_than_the_kernels() -> None:
    check = overlap(to_device=0.8)

    assert check.find(recorded(LOADER, {"own": True})) is None
    finding = failure(check, recorded(LOADER, {"own": True}, {"own": False}))
    assert "80 %" in finding.expected
    assert all(words in finding.got for words in ("from line 8", "call 2 of 2"))
    assert (finding.line, finding.status) == (8, Status.FAILED)


def test_the_share_and_the_line_are_those_of_copies_alone() -> None:
    trace = trace_of(("up", 0, 100, 3), ("up", 100, 400, 5), ("down", 0, 50, 9), (("cuda:0", 0), 200, 360, 6))
    run = run_of(None, trace=trace)

    assert overlap(to_device=0.4).find(run) is None
    finding = failure(overlap(to_device=0.41), run)
    assert finding.got.endswith("100 ns from line 3")
    assert finding.line == 5
    assert "0 % of 50 ns" in failure(overlap(to_host=0.1), run).got


def test_other_devices_hide_nothing_and_a_single_stream_has_no_overlap() -> None:
    elsewhere = run_of(None, trace=trace_of(("up", 0, 100, 3), (("cuda:1", 0), 0, 100, 4), (("cpu", 0), 0, 100, 4)))
    single = run_of(None, trace=trace_of((("cuda:0", 0), 0, 100, 4), (("cuda:0", 0), 100, 200, 4)))

    assert failure(overlap(to_device=0.01), elsewhere).got.startswith("0 % of 100 ns")
    assert failure(overlap(to_device=0.1), single).got == "no host-to-device copies"
    assert failure(overlap(kernels=0.1), single).got == "all kernels on one stream"
    assert failure(overlap(kernels=0.1), run_of(None)).got == "no kernels"


def test_kernels_save_the_time_that_they_share() -> None:
    apart = trace_of((("cuda:0", 0), 0, 100, 4), (("cuda:0", 7), 100, 200, 5, 0))
    half = trace_of((("cuda:0", 0), 0, 100, 4), (("cuda:1", 0), 50, 150, 5, 0))

    assert failure(overlap(kernels=0.5), run_of(None, trace=apart)).got.endswith("on 2 streams")
    assert overlap(kernels=0.5).find(run_of(None, trace=half)) is None
    assert overlap(kernels=0.51).find(run_of(None, trace=half)) is not None


@pytest.mark.parametrize(("waits", "passes"), [((), True), ((("wait", 20, 110, 6),), False)])
def test_short_kernels_need_not_overlap_unless_the_host_waits(waits: tuple[tuple[Any, ...], ...], passes: bool) -> None:
    trace = trace_of((("cuda:0", 0), 0, 100, 4), *waits, (("cuda:1", 0), 120, 220, 5))
    assert (overlap(kernels=0.5).find(run_of(None, trace=trace)) is None) is passes


def test_concurrent_streams_pass_and_waiting_streams_fail() -> None:
    assert overlap(kernels=0.8).find(recorded(STREAMS, {"streams": 3})) is None
    assert overlap(kernels=0.99).find(recorded(LOADER, {"own": True})) is not None


def test_untimed_work_is_inconclusive() -> None:
    copy = run_of(None, trace=trace_of(("up", -1, -1, 3), (("cuda:0", 0), 0, 9, 4)))
    kernel = run_of(None, trace=trace_of(("up", 0, 9, 3), (("cuda:0", 0), -1, -1, 4), (("cuda:0", 1), 0, 9, 4)))

    for check, run in (
        (overlap(to_device=0.5), copy),
        (overlap(to_device=0.5), kernel),
        (overlap(kernels=0.5), kernel),
    ):
        assert failure(check, run).status is Status.INCONCLUSIVE


X = torch.arange(6.0).reshape(2, 3)
ON_ITS_WAY = """
import torch

def work(x):
    doubled = x.cuda() * 2
    home = doubled.to("cpu", non_blocking=True)
    WAIT
    return {"doubled": [home]}
"""


def test_a_race_on_a_virtual_gpu_is_reported_with_both_lines() -> None:
    trace = Trace()
    earlier = trace.add(Kind.KERNEL, "aten::mm", "cuda:0", stream=1, file="work.py", line=5)
    trace.add(Kind.HAZARD, "read after write", "cuda:0", partner=earlier, file="work.py", line=6)

    right, wrong = run_of(observed(X)), run_of(observed(X), trace=trace)
    finding = failure(races(), wrong)

    assert all(words in finding.got for words in ("work.py:6 reads", "aten::mm at work.py:5"))
    assert finding.line == 6
    assert "wait_stream" in finding.advice
    assert races().find(right) is None
    assert races().find(replace(right, repeated=((*right.calls, *wrong.calls),))) is not None, "a race of a repeat"
    assert [races().applies(machine) for machine in (GPU, replace(GPU, virtual=False), NO_GPU)] == [True, False, False]


def test_returning_an_unfinished_copy_is_a_race() -> None:
    finding = failure(races(), recorded(ON_ITS_WAY.replace("WAIT", ""), {"x": X}))

    assert "aten::_to_copy" in finding.got
    assert finding.line == 8
    assert races().find(recorded(ON_ITS_WAY.replace("WAIT", "torch.cuda.synchronize()"), {"x": X})) is None


@pytest.mark.parametrize("array", ["home.numpy()", "home.numpy()[1:].T"])
def test_an_array_of_an_unfinished_copy_is_a_race(array: str) -> None:
    program = ON_ITS_WAY.replace("[home]", f"[{array}]")

    assert failure(races(), recorded(program.replace("WAIT", ""), {"x": X})).line == 8
    assert races().find(recorded(program.replace("WAIT", "torch.cuda.synchronize()"), {"x": X})) is None


def test_every_exercise_checks_races_and_shows_only_failures() -> None:
    right, wrong = (recorded(ON_ITS_WAY.replace("WAIT", wait), {"x": X}) for wait in ("torch.cuda.synchronize()", ""))

    assert list(implicit_verdicts((), right)) == []
    (verdict,) = implicit_verdicts((), wrong)
    assert (verdict.check, verdict.status, verdict.line) == ("races", Status.FAILED, 8)
    assert "non_blocking=True" in verdict.advice
    assert list(implicit_verdicts((races(on="no gpu"),), wrong)) == []


FREED = """import torch
def work():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.ones(1500, 1500, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    y = x @ x
    del x
    return y
"""


def test_memory_freed_too_early_gets_no_advice_about_an_order() -> None:
    wrong_order, freed = recorded(ON_ITS_WAY.replace("WAIT", ""), {"x": X}), recorded(FREED, {})

    assert failure(races(advice="Wait for the copy."), wrong_order).advice == "Wait for the copy."
    finding = failure(races(advice="Wait for the copy."), freed)
    assert "frees memory that aten::mm at" in finding.got
    assert "record_stream" in finding.advice
