"""Identity and aliasing of results, and arguments that must stay unmodified."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gpututor.checks import aliasing, identity, unmodified
from gpututor.checks.model import Run
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.judge.verdicts import implicit_verdicts
from gpututor.protocol.decode import Decoder, facts_by_path
from gpututor.protocol.encode import Encoder
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import failure, run_of

X = torch.arange(6.0).reshape(2, 3)


def call_with(output: torch.Tensor, argument: torch.Tensor) -> Any:
    """Return a run with its output packed together with its argument, to compare identities and storages."""
    packer = Encoder()
    tree = packer.pack(output)
    facts = facts_by_path(packer.facts({"x": argument}))
    run = run_of(Decoder(tuple(packer.buffers)).unpack(tree), {"x": argument})
    return replace(run, calls=(replace(run.calls[0], arguments=facts),))


def test_identity_rejects_copies_and_views() -> None:
    check = identity({"output": "x"})

    assert check.find(call_with(X, X)) is None
    assert "a tensor other than 'x'" in failure(check, call_with(X.clone(), X)).got
    assert "a tensor other than 'x'" in failure(check, call_with(X.view(3, 2), X)).got
    assert "the very tensor" in failure(identity(different={"output": "x"}), call_with(X, X)).got


def test_aliasing_distinguishes_views_from_copies() -> None:
    check = aliasing({"output": "x"})

    assert check.find(call_with(X.t(), X)) is None
    assert "not sharing memory" in failure(check, call_with(X.clone(), X)).got
    assert ": sharing memory" in failure(aliasing(separate={"output": "x"}), call_with(X[0], X)).got


def test_a_removed_argument_fails_and_an_unknown_argument_is_an_authors_error() -> None:
    run = call_with(X, X)
    with pytest.raises(CourseError, match="'y'"):
        identity({"output": "y"}).find(run)
    run = replace(run, calls=(replace(run.calls[0], arguments={}, before={"x": "digest"}),))
    assert "no longer there" in failure(identity({"output": "x"}), run).got


BEFORE = {"x": "aa", "batch.0": "bb", "batch.1": "cc", "model.0.bias": "dd"}


def run_with(after: dict[str, str], trace: Trace | None = None) -> Run:
    run = run_of(None, {"x": torch.ones(2)}, trace=trace)
    return replace(run, calls=(replace(run.calls[0], before=BEFORE, after=after),))


def test_changed_removed_and_new_arguments_are_named_unless_they_may_change() -> None:
    finding = failure(unmodified(), run_with({"x": "changed", "batch.0": "bb", "batch.2": "new", "model.0.bias": "dd"}))

    assert all(words in finding.got for words in ("batch.1 is gone", "batch.2 is new", "x was changed"))
    assert finding.line == 6
    assert unmodified().find(run_with(dict(BEFORE))) is None
    assert "and 1 more" in failure(unmodified(), run_with({})).got, "a long list is cut"
    after = {**BEFORE, "x": "1", "batch.0": "2", "model.0.bias": "3"}

    assert unmodified(("x", "batch", "model.*.bias")).find(run_with(after)) is None
    assert failure(unmodified(("x", "bat", "model.*.bias")), run_with(after)).got.startswith("batch.0 was changed")


def test_the_line_is_that_of_the_only_write_in_place() -> None:
    trace = Trace()
    trace.add(Kind.KERNEL, "aten::mm", "cuda:0", file="a.py", line=3)
    trace.add(Kind.KERNEL, "aten::add_", "cuda:0", file="a.py", line=5)
    assert failure(unmodified(), run_with({}, trace)).line == 5
    trace.add(Kind.KERNEL, "aten::mul_", "cuda:0", file="a.py", line=4)
    assert failure(unmodified(), run_with({}, trace)).line == 6


def test_each_repeat_and_each_rank_is_checked() -> None:
    run = run_with(dict(BEFORE))
    first = run.calls[0]
    second = replace(first, after={**BEFORE, "model.0.bias": "changed"})
    ranks = replace(run, calls=(replace(first, ranks=(first, second)),))

    assert "model.0.bias was changed" in failure(unmodified(), replace(run, repeated=((first, second),))).got
    assert failure(unmodified(), ranks).got.startswith("rank 1: model.0.bias was changed")
    assert unmodified(("model.*",)).find(ranks) is None


def test_digests_depend_on_values_shapes_and_dtypes() -> None:
    x = torch.arange(6.0)
    ways = [x, x + 1, x.reshape(2, 3), x.double(), -x, x.clone()]
    digests = [Encoder().digests({"x": way})["x"] for way in ways]

    assert len(set(digests)) == 5
    assert digests[0] == digests[5]


def test_every_exercise_has_the_check_and_shows_it_only_on_failure() -> None:
    right, wrong = run_with(dict(BEFORE)), run_with({**BEFORE, "x": "changed"})

    assert list(implicit_verdicts((), right)) == []
    (verdict,) = implicit_verdicts((), wrong)
    assert (verdict.check, verdict.status) == ("unmodified", Status.FAILED)
    assert verdict.why
    assert verdict.advice
    assert list(implicit_verdicts((unmodified(("x",)),), wrong)) == []
