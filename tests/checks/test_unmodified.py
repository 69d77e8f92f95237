"""Arguments that were changed, removed or added are named; those that may change are not."""

from __future__ import annotations

from dataclasses import replace

import torch

from gpututor.checks import unmodified
from gpututor.checks.model import Run
from gpututor.grading.report import Status
from gpututor.judge.verdicts import implicit_verdicts
from gpututor.protocol.encode import Encoder
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import found, run_of

BEFORE = {"x": "aa", "batch.0": "bb", "batch.1": "cc", "model.0.bias": "dd"}


def run_with(after: dict[str, str], trace: Trace | None = None) -> Run:
    run = run_of(None, {"x": torch.ones(2)}, trace=trace)
    return replace(run, calls=(replace(run.calls[0], before=BEFORE, after=after),))


def test_arguments_that_stay_pass() -> None:
    assert unmodified().find(run_with(dict(BEFORE))) is None


def test_what_changed_vanished_or_appeared_is_named() -> None:
    after = {"x": "changed", "batch.0": "bb", "batch.2": "new", "model.0.bias": "dd"}

    finding = found(unmodified(), run_with(after))

    assert finding.got == "batch.1 is gone; batch.2 is new; x was changed (with x of shape (2,))"
    assert finding.line == 6


def test_what_may_change_may_change_and_nothing_else() -> None:
    after = {**BEFORE, "x": "1", "batch.0": "2", "model.0.bias": "3"}

    assert unmodified(("x", "batch", "model.*.bias")).find(run_with(after)) is None
    assert found(unmodified(("x", "bat", "model.*.bias")), run_with(after)).got.startswith("batch.0 was changed")


def test_long_lists_are_cut() -> None:
    assert "and 1 more" in found(unmodified(), run_with({})).got


def test_the_line_is_the_one_that_writes_in_place_where_there_is_only_one() -> None:
    trace = Trace()
    trace.add(Kind.KERNEL, "aten::mm", "cuda:0", file="a.py", line=3)
    trace.add(Kind.KERNEL, "aten::add_", "cuda:0", file="a.py", line=5)
    assert found(unmodified(), run_with({}, trace)).line == 5
    trace.add(Kind.KERNEL, "aten::mul_", "cuda:0", file="a.py", line=4)
    assert found(unmodified(), run_with({}, trace)).line == 6


def test_a_change_in_a_repeat_is_seen_too() -> None:
    run = run_with(dict(BEFORE))
    second = replace(run.calls[0], after={**BEFORE, "x": "changed"})

    assert "x was changed" in found(unmodified(), replace(run, repeated=((run.calls[0], second),))).got


def test_each_rank_is_looked_at_by_itself() -> None:
    one, other = run_with(dict(BEFORE)).calls[0], run_with({**BEFORE, "model.0.bias": "changed"}).calls[0]
    run = run_with(dict(BEFORE))
    run = replace(run, calls=(replace(run.calls[0], ranks=(one, other)),))

    assert found(unmodified(), run).got.startswith("rank 1: model.0.bias was changed")
    assert unmodified(("model.*",)).find(run) is None


def test_digests_tell_values_shapes_and_dtypes_apart() -> None:
    x = torch.arange(6.0)
    ways = [x, x + 1, x.reshape(2, 3), x.double(), -x, x.clone()]
    digests = [Encoder().digests({"x": way})["x"] for way in ways]

    assert len(set(digests)) == 5
    assert digests[0] == digests[5]


def test_every_exercise_has_it_and_it_shows_only_when_it_fails() -> None:
    right, wrong = run_with(dict(BEFORE)), run_with({**BEFORE, "x": "changed"})

    assert list(implicit_verdicts((), right)) == []
    (verdict,) = implicit_verdicts((), wrong)
    assert (verdict.check, verdict.status) == ("unmodified", Status.FAILED)
    assert verdict.why
    assert verdict.advice
    assert list(implicit_verdicts((unmodified(("x",)),), wrong)) == []
