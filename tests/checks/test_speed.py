"""Speed: read from the virtual clock, or measured by the judge."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpututor.checks import speed
from gpututor.checks.model import Call, Finding, Run, Span, Spread, Timing
from gpututor.checks.speed import describe_limit
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import GPU, SOURCE, failure

REAL = replace(GPU, virtual=False)
PASSED = Timing(
    Status.PASSED, "", 0.98, 0.95, 1.01, Spread(2e-3, 1.9e-3, 2.1e-3), Spread(2.1e-3, 2e-3, 2.2e-3), pairs=13, calls=8
)


def taking(nanoseconds: int) -> Call:
    return Call({}, {}, None, Trace(), span=Span(100, 100 + nanoseconds // 2, 100 + nanoseconds))


def modelled(submission: int, baseline: int) -> Run:
    return Run(GPU, (taking(submission),), SOURCE, "work", baselines={"baseline.py": (taking(baseline),)})


def measured(timing: Timing) -> Run:
    return Run(REAL, (), SOURCE, "work", timings={"speed": timing})


def test_times_over_the_ratio_are_too_slow_on_the_virtual_clock() -> None:
    assert all(speed(1.25).find(modelled(nanoseconds, 1000)) is None for nanoseconds in (1, 1000, 1250))
    finding = failure(speed(1.25), modelled(1251, 1000))

    assert finding.status is Status.TOO_SLOW
    assert finding.got.startswith("1.25 × ")
    assert "(modelled)" in finding.expected
    assert describe_limit(1 / 3, "the loop").endswith("3 × as fast as the loop")
    assert speed(1 / 3).find(modelled(333, 1000)) is None
    assert failure(speed(1 / 3), modelled(334, 1000)).status is Status.TOO_SLOW
    with pytest.raises(CourseError, match="take no time"):
        speed(1.25).find(modelled(1000, 0))


@pytest.mark.parametrize(("launched", "words", "line"), [(200, "line 5 costs most: 45 %", 5), (900, "40 %", None)])
def test_the_line_that_costs_most_is_named(launched: int, words: str, line: int | None) -> None:
    trace = Trace()
    trace.add(Kind.TRANSFER, "aten::_to_copy", "cuda:0", launched=launched, start=launched, end=1100, line=5)
    call = replace(taking(2000), trace=trace)
    finding = failure(speed(1.25), replace(modelled(0, 100), calls=(call,)))

    assert words in finding.got
    assert finding.line == line


def test_measured_times_are_shown_with_their_spread() -> None:
    check = speed(1.25, real_at_most=1.25)
    assert check.find(measured(PASSED)) is None
    assert check.measured is not None
    ratio, *times = re.findall(r"\d+\.\d\d(?: ms)?", shown := check.measured(measured(PASSED)))
    assert (ratio, times[:2]) == ("0.98", ["0.95", "1.01"])
    assert times[2:] == ["2.00 ms", "1.90 ms", "2.10 ms", "2.10 ms", "2.00 ms", "2.20 ms"]
    assert "13 pairs" in shown


@pytest.mark.parametrize("status", [Status.TOO_SLOW, Status.INCONCLUSIVE, Status.NEEDS_REVIEW])
def test_the_judges_decision_is_the_verdict(status: Status) -> None:
    finding = failure(speed(1.25, real_at_most=1.25), measured(replace(PASSED, decision=status, why="because")))

    assert finding.status is status
    assert "because" in finding.got
    assert finding.advice


def test_a_wrong_timed_result_fails_with_its_finding() -> None:
    wrong = Timing(Status.FAILED, wrong=Finding("zeros", "ones", line=3))
    finding = failure(speed(1.25, real_at_most=1.25), measured(wrong))

    assert (finding.status, finding.expected, finding.got, finding.line) == (Status.FAILED, "zeros", "ones", 3)


def test_the_old_name_of_compared_with_warns_and_works() -> None:
    with pytest.warns(DeprecationWarning, match="compared_with"):
        old = speed(1 / 3, beside="the loop")
    assert old.sentence(GPU) == speed(1 / 3, compared_with="the loop").sentence(GPU)


def test_without_a_ratio_for_real_devices_nothing_is_timed_there() -> None:
    check = speed(1.25, real_at_most=2.0)

    assert [speed(1.25).applies(GPU), speed(1.25).applies(REAL), check.applies(REAL)] == [True, False, True]
    assert failure(check, Run(REAL, (), SOURCE, "work")).status is Status.INCONCLUSIVE, "it was not timed"
