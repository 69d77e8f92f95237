"""Texts of reports: outcome, points, remarks and progress."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpututor.grading.events import (
    CallStarted,
    OutputPrinted,
    ScenarioStarted,
    TimingProgressed,
    event_from_json,
    event_to_json,
)
from gpututor.grading.report import Outcome, Placement, Report, RunSummary, Status, Times
from gpututor.grading.report_text import (
    GLYPHS,
    OUTCOME_TITLES,
    RunProgress,
    device_words,
    elapsed,
    evidence,
    line_of,
    mark,
    outcome_line,
    points_line,
    remarks,
)
from tests.support.report_strategies import report, said


def test_every_status_has_a_title_and_only_a_pass_its_glyph() -> None:
    assert set(GLYPHS) == set(Status)
    assert set(OUTCOME_TITLES) == set(Outcome)
    assert mark(Status.TOO_SLOW) == "✗ too slow"
    assert mark(Status.NEEDS_REVIEW) == "○ needs review"
    assert [status for status in Status if GLYPHS[status] == GLYPHS[Status.PASSED]] == [Status.PASSED]
    assert [outcome for outcome in Outcome if OUTCOME_TITLES[outcome].startswith("✓")] == [Outcome.PASSED]


LOADS = said("loads", Status.FAILED, of=0)
NOT_RUN = said("x", Status.NOT_RUN)
BROKEN_WITHOUT_GPU = tuple(replace(verdict, scenario="no GPU") for verdict in (LOADS, NOT_RUN))


@pytest.mark.parametrize(
    ("graded", "start", "counts"),
    [
        (report(Outcome.PASSED, said("loads", of=0), said("parity")), "✓ Passed", ["2"]),
        (report(Outcome.PASSED, said("parity")), "✓ Passed", []),
        (report(Outcome.REJECTED), "✗ Rejected", []),
        (
            report(Outcome.FAILED, said("loads", of=0), said("parity", Status.FAILED), NOT_RUN),
            "✗ Failed",
            ["1", "3", "1"],
        ),
        (
            report(Outcome.FAILED, said("placement", Status.HELD_BACK), said("parity", Status.FAILED)),
            "✗ Failed",
            ["0", "2", "1"],
        ),
        (report(Outcome.ERROR, LOADS, NOT_RUN), "✗ Does not run yet", []),
        (report(Outcome.TIMEOUT, LOADS, NOT_RUN), "✗ Took too long", []),
        (
            report(Outcome.ERROR, *BROKEN_WITHOUT_GPU, said("loads", of=0), said("x")),
            "✗ Stopped by an error",
            ["2", "4", "1"],
        ),
        (report(Outcome.TOO_SLOW, said("parity"), said("speed", Status.TOO_SLOW)), "✗ Too slow", ["1", "2", "1"]),
        (report(Outcome.PASSED, said("parity", of=2), said("speed", of=0.5)), "✓ Passed", ["2", "2.5", "2.5"]),
        (
            report(Outcome.FAILED, said("parity", of=7), said("speed", Status.FAILED, of=3)),
            "✗ Failed",
            ["1", "2", "7", "10"],
        ),
    ],
)
def test_an_outcome_fits_on_one_line(graded: Report, start: str, counts: list[str]) -> None:
    line = outcome_line(graded)
    assert line.startswith(start)
    assert re.findall(r"\d[.\d]*", line) == counts


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.NEEDS_REVIEW])
def test_provisional_points_are_labeled(status: Status) -> None:
    open_report = report(Outcome(status), said("parity", of=7), said("speed", status, of=3))
    assert points_line(open_report).startswith("7 of 10 ")
    assert outcome_line(open_report).startswith("○ ")
    assert f"1 {status}" in outcome_line(open_report)


def ran(times: Times, placement: Placement) -> RunSummary:
    return RunSummary("one GPU", "cuda:0", virtual=True, times=times, placement=placement)


def test_evidence_devices_suspicions_and_loading_are_named() -> None:
    none = report(Outcome.FAILED)
    assert evidence(none) == ""
    assert evidence(replace(none, runs=(ran("modelled", "traced"),) * 2)) == "times modelled; placement traced"
    both = replace(none, runs=(ran("modelled", "traced"), ran("measured", "corroborated"), ran("", "")))
    times, placement = evidence(both).split("; ")
    assert (times, placement) == ("times modelled and measured", "placement traced and corroborated")
    assert device_words("2 x virtual T4") == "2 x virtual T4 (modelled)"
    assert device_words("no GPU, only the CPU").endswith(" (modelled)")
    assert device_words("cuda:0, NVIDIA H100") == "cuda:0, NVIDIA H100"
    suspected = report(Outcome.NEEDS_REVIEW, said("parity"), suspicions=("it moved 3 bytes in 1 ns",))
    (remark,) = remarks(suspected)
    assert remark.endswith(suspected.suspicions[0])
    warm = replace(report(Outcome.PASSED), elapsed_s=0.04, waited_s=0.001)
    assert elapsed(warm) == "0.04 s"
    assert elapsed(replace(warm, elapsed_s=2.1, waited_s=1.9)).startswith("2.1 s, ")


def test_another_gpu_is_mentioned_with_advice_after_a_failure() -> None:
    runs = (replace(ran("modelled", "traced"), own_gpu="T4"), ran("modelled", "traced"))
    assert remarks(replace(report(Outcome.FAILED), runs=runs[1:])) == []
    (passed,) = remarks(replace(report(Outcome.PASSED), runs=runs))
    (failed,) = remarks(replace(report(Outcome.FAILED, said("parity", Status.FAILED)), runs=runs))
    assert "T4" in passed
    assert failed.startswith(passed)
    assert "--model" in failed


def test_a_remark_says_what_holds_checks_back() -> None:
    held = replace(said("placement", Status.HELD_BACK), why="held back until this passes: The ratio is right")
    graded = report(Outcome.FAILED, said("parity"), said("ratio", Status.FAILED), held, held)
    assert remarks(graded) == ["Held back until this passes: The ratio is right."]
    older = replace(held, why="the values are wrong")
    assert remarks(report(Outcome.FAILED, older)) == ["Held back: the values are wrong."]


def test_a_line_keeps_its_indentation_only_if_that_is_wrong() -> None:
    lines = ["def f(x):", "      return x"]
    failed = replace(said("loads", Status.FAILED), line=2)
    assert line_of(failed, lines) == "return x"
    assert line_of(replace(failed, got="IndentationError: unexpected indent, at line 2"), lines) == "      return x"
    assert (line_of(replace(failed, line=3), lines), line_of(replace(failed, line=None), lines)) == ("", "")


def test_progress_names_the_current_step_and_events_survive_a_round_trip() -> None:
    now = [0.0]
    progress = RunProgress(lambda: now[0])
    progress.note(ScenarioStarted("one GPU", "cuda:0"))
    assert (progress.is_noticeable, progress.duration, progress.where) == (False, "0 s", "")
    progress.note(CallStarted(2, 3))
    now[0] = 3.2
    assert (progress.is_noticeable, progress.duration, progress.where) == (True, "3 s", "call 2 of 3")
    progress.note(ScenarioStarted("no GPU", "cpu", 2, 2))
    assert progress.where == "machine 2 of 2"
    now[0] = 125
    progress.note(TimingProgressed("It is quick", 12, 200))
    assert progress.duration == "2 min 05 s"
    assert re.findall(r"\d+", progress.where) == ["2", "2", "12", "200"]
    for event in (ScenarioStarted("one GPU", "cuda:0", 2, 3), CallStarted(1, 4), OutputPrinted("epoch 1")):
        assert event_from_json(event_to_json(event)) == event
