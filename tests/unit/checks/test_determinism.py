"""Calls on the same inputs are compared; races are told from state that is left over."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gpututor.checks import determinism, races
from gpututor.checks.core import Machine, Run
from gpututor.errors import CourseError
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.wire.observed import ObservedObject
from tests.unit.checks.recorded import recorded
from tests.unit.checks.runs import GPU, NO_GPU, found, observed, run_of

REAL = replace(GPU, virtual=False)
X = torch.arange(6.0).reshape(2, 3)


def run_with(*outputs: Any, machine: Machine = GPU, trace: Trace | None = None) -> Run:
    """One case, called as often as there are outputs."""
    run = run_of(None, {"x": X}, machine=machine, trace=trace)
    calls = tuple(replace(run.calls[0], output=output) for output in outputs)
    return replace(run, calls=calls[:1], repeated=(calls,))


def a_race() -> Trace:
    trace = Trace()
    earlier = trace.add(Kind.KERNEL, "aten::mm", "cuda:0", stream=1, file="work.py", line=5)
    trace.add(Kind.HAZARD, "read after write", "cuda:0", partner=earlier, file="work.py", line=6)
    return trace


@pytest.mark.parametrize(
    "output",
    [observed(X), observed({"a": [X, 1.5], "b": "text"}), observed(X.numpy()), math.nan, observed(X / 0), None],
    ids=["a tensor", "nested", "an array", "nan", "inf and nan", "None"],
)
def test_results_that_agree_pass(output: Any) -> None:
    assert determinism().find(run_with(output, output)) is None


def test_objects_are_compared_by_their_type() -> None:
    one, other = (ObservedObject("Stream", f"<Stream at {place}>") for place in ("0x1", "0x2"))

    assert determinism().find(run_with(one, other)) is None
    assert determinism().find(run_with(one, replace(other, type_name="Event"))) is not None


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (observed(X), observed(X + torch.eye(2, 3) * 1e-6), "1e-06 at [0, 0], not 0 (2 of 6 elements differ)"),
        (observed({"a": X}), observed({"a": X[:1]}), "result['a'] of repeat 2, on the same inputs, is of shape"),
        (observed([X]), observed([X, X]), "2 parts instead of 1"),
        (observed(np.arange(3)), observed(np.arange(3) + 1), "1 at [0], not 0"),
        (1, 2, "2, not 1"),
        (1.0, 1.0 + 1e-9, "not 1.0"),
        (True, 1, "an int instead of a bool"),
    ],
)
def test_results_that_differ_are_shown(one: Any, other: Any, words: str) -> None:
    finding = found(determinism(), run_with(one, other))

    assert words in finding.got
    assert "a race, or state left over" in finding.got


def test_every_repeat_is_looked_at() -> None:
    assert determinism(3).repeats == 3
    assert "of repeat 3" in found(determinism(3), run_with(1, 1, 2)).got


def test_on_a_real_device_the_order_of_sums_may_differ() -> None:
    one, other = observed(X), observed(X * (1 + 1e-6))

    assert determinism().find(run_with(one, other, machine=REAL)) is None
    assert determinism().find(run_with(one, observed(X * 1.001), machine=REAL)) is not None
    assert determinism().find(run_with(one, other, machine=replace(REAL, device="cpu"))) is not None


def test_where_streams_race_a_difference_is_called_a_race_with_both_lines() -> None:
    finding = found(determinism(), run_with(observed(X), observed(X + 1), trace=a_race()))

    assert "This is a race: work.py:6 reads what aten::mm at work.py:5 writes on another stream" in finding.got
    assert finding.line == 6
    assert "wait_stream" in finding.advice


def test_races_are_found_though_all_results_agree() -> None:
    finding = found(races(), run_with(observed(X), trace=a_race()))

    assert finding.got.startswith("work.py:6 reads what aten::mm at work.py:5 writes on another stream, and nothing")
    assert finding.line == 6
    assert races().find(run_with(observed(X))) is None


def test_races_are_looked_for_where_they_can_be_seen() -> None:
    assert races().applies(GPU)
    assert not races().applies(REAL)
    assert not races().applies(NO_GPU)


def test_one_call_is_no_comparison() -> None:
    with pytest.raises(CourseError, match="repeats=1"):
        determinism(1)


ON_ITS_WAY = """
import torch

def work(x):
    doubled = x.cuda() * 2
    home = doubled.to("cpu", non_blocking=True)
    WAIT
    return {"doubled": [home]}
"""


def test_a_result_that_is_still_on_its_way_home_is_a_race() -> None:
    finding = found(races(), recorded(ON_ITS_WAY.replace("WAIT", ""), {"x": X}))

    assert "reads memory of the host that aten::_to_copy at work_" in finding.got
    assert "the host does not wait for it" in finding.got
    assert finding.line == 8
    assert races().find(recorded(ON_ITS_WAY.replace("WAIT", "torch.cuda.synchronize()"), {"x": X})) is None
