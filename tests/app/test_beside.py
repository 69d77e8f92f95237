"""Times beside each other and lines beside each other, without a screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.app.trace_view.comparison import baselines_of, line_pairs, pair_of, why_not
from gpututor.app.trace_view.model import OtherAttempt, RunView, first_view
from gpututor.app.trace_view.times_tab import TimeBar, all_bars, limit_of, nanoseconds, times_lines
from gpututor.checks.model import Spread, Timing
from gpututor.checks.speed import describe_limit
from gpututor.grading.recording import LineCost
from gpututor.grading.report import Status
from tests.support.recordings import make_recording, small_trace
from tests.support.scripted_client import verdict
from tests.support.traces import MS


def view_of(folder: Path, *, factor: float = 1.0, device: str = "cuda:0, virtual T4", attempt: int = 2) -> RunView:
    trace, baseline = small_trace(factor=factor), small_trace(factor=4)
    recording = make_recording(folder / str(factor), trace, baseline=baseline, device=device)
    found = first_view(recording, attempt=attempt, title="1.1 Twice", file_name="twice.py", source="a = 1\n")
    assert found is not None
    return found


def roles(view: RunView) -> dict[str, TimeBar]:
    return {one.words: one for one in all_bars(view)[0].bars}


@pytest.mark.parametrize(("at_most", "limit"), [(1.25, 1.25), (0.1, 0.1), (1.0, 1.0), (1 / 3, 1 / 3)])
def test_the_limit_is_read_from_the_checks_own_sentence(at_most: float, limit: float) -> None:
    assert limit_of(describe_limit(at_most)) == pytest.approx(limit, rel=0.01)
    assert limit_of(describe_limit(at_most, "the script that you began with")) == pytest.approx(limit, rel=0.01)


def test_other_sentences_have_no_limit() -> None:
    assert limit_of("The values agree with the CPU's") is None


def test_times_stand_on_one_scale_with_the_limit_and_the_floor(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    elapsed, baseline = view.run.elapsed_ns, sum(call.elapsed_ns for call in view.run.baselines[0].calls)
    view = replace(view, verdicts=(replace(verdict("speed"), sentence=describe_limit(0.5)),))
    found = roles(view)
    assert found["this attempt (2)"].time_ns == elapsed
    assert found["this attempt (2)"].note == "0.25 × baseline.py"
    assert found["baseline.py"].time_ns == baseline == 4 * elapsed
    assert found["allowed"].time_ns == baseline // 2
    assert found["the floor"].time_ns == view.run.floor_ns


def test_other_attempts_with_other_inputs_are_told_apart(tmp_path: Path) -> None:
    view, other = view_of(tmp_path), view_of(tmp_path, factor=2)
    (call,) = other.recording.runs[0].calls
    moved = replace(other.recording, runs=(replace(other.run, calls=(replace(call, words="with number=9"),)),))
    view = replace(view, others=(OtherAttempt("best", other.recording), OtherAttempt("before", moved)))
    found = roles(view)
    assert found["best"].note == "0.50 × baseline.py"
    assert found["before"].note == "0.50 × baseline.py, with other inputs"


def test_modelled_and_measured_times_are_never_on_one_scale(tmp_path: Path) -> None:
    view, real = view_of(tmp_path), view_of(tmp_path, factor=3, device="cuda:0, NVIDIA H200")
    view = replace(view, others=(OtherAttempt("best", real.recording),))
    assert "best" not in roles(view)
    assert all_bars(real)[0].heading == "The call, measured"
    assert all_bars(view)[0].heading == "The call, modelled"


def test_what_was_timed_in_pairs_is_shown_with_its_spread(tmp_path: Path) -> None:
    timing = Timing(
        Status.PASSED, "", 0.81, 0.79, 0.84, Spread(2e-3, 1.9e-3, 2.2e-3), Spread(2.5e-3, 2.5e-3, 2.5e-3), 12, 10
    )
    view = view_of(tmp_path, device="cuda:0, NVIDIA H200")
    speed = replace(verdict("speed"), sentence=describe_limit(1.25), measured=timing.figures)
    measured = all_bars(replace(view, verdicts=(speed,)))[1]
    mine, theirs, allowed = measured.bars
    assert "12 pairs, measured" in measured.heading
    assert (mine.time_ns, mine.low_ns, mine.high_ns) == (2 * MS, 1.9 * MS, 2.2 * MS)
    assert (theirs.time_ns, theirs.high_ns) == (2.5 * MS, 0)
    assert allowed.time_ns == 1.25 * 2.5 * MS


def test_a_run_without_times_has_no_bars(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    runs = (replace(view.run, times=""),)
    assert all_bars(replace(view, recording=replace(view.recording, runs=runs))) == ()


def test_a_run_without_device_work_shows_words_instead_of_bars(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    calls = tuple(replace(view.run.calls[0], words=f"call {number} of 2", elapsed_ns=0) for number in (1, 2))
    runs = (replace(view.run, calls=calls),)
    view = replace(view, recording=replace(view.recording, runs=runs))
    assert all_bars(view) == ()
    shown = "\n".join(line.plain for line in times_lines(view, 80))
    assert "No device did anything in this call" in shown
    assert "█" not in shown


@pytest.mark.parametrize(("words", "value"), [("1.25 ms", 1_250_000), ("1,234 s", 1_234 * 10**9), ("512 ns", 512)])
def test_times_are_read_back(words: str, value: int) -> None:
    assert nanoseconds(words) == value


def cost(line: int, kernel_ns: int = 0, *, kernels: int = 1, copies: int = 0, waits: int = 0) -> LineCost:
    return LineCost(line, kernels, kernel_ns, copies, 0, 0, waits, 0, 0)


def test_lines_are_paired_by_their_text_wherever_they_stand() -> None:
    left = ["x = 1", "for a in b:", "    y = work(a)", "z = 2"]
    right = ["# a comment", "x = 1", "y = work(a)", "q = 3"]
    pairs = line_pairs(left, [cost(3, 500, kernels=1), cost(4, 10)], right, [cost(3, 900, kernels=4), cost(4, 20)])
    assert [(one.text, one.left_line, one.right_line, one.change_ns) for one in pairs] == [
        ("y = work(a)", 3, 3, -400),
        ("q = 3", None, 4, -20),
        ("z = 2", 4, None, 10),
    ]
    assert pairs[0].words == "3 kernels fewer"


def test_what_only_one_has_is_counted_against_none() -> None:
    (pair,) = line_pairs(["x.item()"], [cost(1, 0, kernels=0, waits=3, copies=1)], [], [])
    assert pair.words == "1 copy more, 3 waits more"


def test_the_other_one_is_the_same_case_of_the_same_scenario(tmp_path: Path) -> None:
    left = view_of(tmp_path)
    (baseline,) = baselines_of(left)
    pair = pair_of(left, baseline)
    assert pair is not None
    assert pair.right.call.elapsed_ns == left.run.baselines[0].calls[0].elapsed_ns
    assert pair.same_inputs
    moved = replace(left.recording, runs=(replace(left.run, scenario="two GPUs"),))
    elsewhere = replace(baseline, view=replace(left, recording=moved))
    assert pair_of(left, elsewhere) is None
    words = why_not(left, elsewhere, another=True)
    assert f"did not run in “{left.run.scenario}”" in words
    assert "Run the checks again" in words
