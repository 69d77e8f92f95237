"""Recordings of a grading: complete, bounded, and without influence on the verdict."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpututor.checks.model import Call, Machine, MemoryUse, Run, Span
from gpututor.course.loader import load_exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.recording import FILE, Recording, read_recording
from gpututor.grading.report import Outcome, Report
from gpututor.hardware.scenario import Scenario
from gpututor.judge import recorder as module
from gpututor.judge.recorder import RecordingWriter
from gpututor.paths import builtin_course
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.serialization import read_trace
from tests.support.gradings import Grade, grade_in
from tests.support.tiny_course import RIGHT

MACHINE = Machine(Scenario("one GPU", 1, ("cuda",)), "cuda:0", True, "Tesla T4", 16 << 30)
FILE_NAME = "mine.py"


def graded(client: GradingClient, folder: Path, to: Path, source: str | None = None) -> Report:
    text = load_exercise(folder).file("solution.py") if source is None else source
    return grade_in(client, folder, text, device="virtual", recording_folder=str(to))


def small_trace(events: int = 3, line: int = 4) -> Trace:
    """Return a trace with memory, kernels and a wait; all but the wait belong to a line of the file."""
    trace, file, gpu = Trace(), f"/scratch/{FILE_NAME}", "cuda:0"
    trace.add(Kind.ALLOCATE, "aten::empty", gpu, size_bytes=512, allocated=512, start=0, end=0, file=file, line=line)
    for begin in range(0, 1000 * events, 1000):
        trace.add(Kind.KERNEL, "aten::mul", gpu, launched=begin, start=begin, end=begin + 400, file=file, line=line)
    trace.add(Kind.SYNCHRONISE, "torch.cuda.synchronize", gpu, start=0, end=5000, file="/given.py", line=2)
    return trace


def a_run(*traces: Trace) -> Run:
    calls = tuple(
        Call({"size": 3}, {}, None, trace, span=Span(0, 2, 9000), memory={"cuda:0": MemoryUse(0, 512, 0)})
        for trace in traces
    )
    return Run(MACHINE, calls, "", "mine")


def recorded(folder: Path, *runs: Run, cases: int = 2) -> Recording:
    recorder = RecordingWriter(str(folder), (), cases)
    for run in runs:
        recorder.add(run, "cuda:0, virtual T4", FILE_NAME)
    return read_recording(folder)


def test_a_run_has_bounded_figures_of_its_calls_and_lines(tmp_path: Path) -> None:
    result = recorded(tmp_path / "new", a_run(small_trace(), small_trace(2)))
    (run,) = result.runs
    assert (run.scenario, run.device, run.times, run.baselines) == ("one GPU", "cuda:0, virtual T4", "modelled", ())
    first, second = run.calls
    assert first.words.startswith("call 1 of 2")
    assert (first.elapsed_ns, first.peak_bytes, first.peak_line, first.events, first.dropped) == (9000, 512, 4, 5, 0)
    path = result.trace_path(second)
    assert path is not None
    assert list(read_trace(str(path))) == list(small_trace(2))
    (costs,) = run.lines  # other files have no lines here
    assert (costs.line, costs.kernels, costs.kernel_ns, costs.allocated_bytes, costs.waits) == (4, 5, 2000, 1024, 0)
    trace = Trace(None)
    for line in range(1, 4001):
        trace.add(Kind.KERNEL, 500 * "n", "cuda:0", start=0, end=1, file=FILE_NAME, line=line)
        trace.add(Kind.HAZARD, "read after write", "cuda:0", partner=2 * line - 2, file=FILE_NAME, line=line)
    (run,) = recorded(tmp_path, a_run(trace)).runs
    assert len(run.lines) == 2000
    assert {len(sentence) for each in run.lines for sentence in each.hazards} == {300}


def test_a_recording_is_bounded_and_counts_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    traces = small_trace(10_000), small_trace(10_000)
    result = recorded(tmp_path, a_run(*traces))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size <= 1.1 * (1 << 20)
    kept = [call.events - call.dropped for call in result.runs[0].calls]
    assert kept[0] == 10_002
    assert 0 < kept[1] < 10_002
    path = result.trace_path(result.runs[0].calls[1])
    assert path is not None
    trace = read_trace(str(path))
    assert (len(trace), trace.dropped) == (kept[1], 10_002 - kept[1])
    assert list(trace) == list(traces[1])[: kept[1]]
    assert f"{10_002 - kept[1]:,}" in result.left_out
    assert result.runs[0].lines[0].kernels == 20_000, "figures are of everything"


def test_names_in_traces_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 16)
    traces = []
    for number in range(3):
        traces.append(small_trace())
        for event in range(20):
            traces[-1].add(Kind.KERNEL, f"{number}{event}" + 900 * "\U0001f600", "cuda:0", start=0, end=1)
    result = recorded(tmp_path, a_run(*traces, small_trace()))
    assert sum(path.stat().st_size for path in tmp_path.glob("*.trace")) <= 1 << 16
    assert [call.trace for call in result.runs[0].calls] == ["", "", "", "run1_4.trace"]
    assert [call.dropped for call in result.runs[0].calls] == [25, 25, 25, 0]
    assert result.left_out.startswith("75 events")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_changes_no_verdict(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run1_1.trace.part").symlink_to("/dev/full")
    recorder = RecordingWriter(str(tmp_path), (), 1)
    recorder.add(a_run(small_trace()), "", FILE_NAME)
    recorder.add(a_run(small_trace()), "", FILE_NAME)
    assert not (tmp_path / FILE).exists()
    assert capfd.readouterr().err.count("No space left") == 1


def test_without_a_request_the_judge_records_nothing(grade: Grade, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert grade(RIGHT).outcome is Outcome.PASSED
    assert sorted(tmp_path.rglob("*")) == before


def first_exercise(file: str, text: str) -> Path:
    """Return the folder of the course's first exercise with `text` in its `file`."""
    return next(path.parent for path in sorted(builtin_course().glob(f"*/*/{file}")) if text in path.read_text())


def test_a_baseline_and_each_rank_of_several_processes_are_recorded(client: GradingClient, tmp_path: Path) -> None:
    assert graded(client, first_exercise("checks.py", "speed("), tmp_path).outcome is Outcome.PASSED
    run = read_recording(tmp_path).runs[0]
    assert [bool(baseline.calls) for baseline in run.baselines] == [True] * len(run.baselines) != []
    assert all(0 <= call.floor_ns <= call.elapsed_ns for call in run.calls)
    assert run.lines
    assert run.elapsed_ns > 0
    names = {str(path.name) for path in tmp_path.iterdir()}
    assert {call.trace for call in run.calls} < names
    assert (
        graded(client, first_exercise("exercise.toml", 'kind = "processes"'), tmp_path / "ranks").outcome
        is Outcome.PASSED
    )
    run = read_recording(tmp_path / "ranks").runs[0]
    words = [call.words for call in run.calls]
    assert [text.rpartition(", ")[2] for text in words[:2]] == ["rank 0", "rank 1"]
    assert len({call.trace for call in run.calls}) == len(run.calls)


@pytest.mark.long
def test_a_script_is_recorded(client: GradingClient, tmp_path: Path) -> None:
    assert graded(client, first_exercise("exercise.toml", 'kind = "script"'), tmp_path).outcome is Outcome.PASSED
    assert read_recording(tmp_path).runs[0].calls[0].words


def test_calls_are_recorded_up_to_an_error(client: GradingClient, exercise_folder: Path, tmp_path: Path) -> None:
    source = "calls = []\ndef twice(number):\n    calls.append(1)\n    assert len(calls) < 2\n    return 2 * number\n"
    assert graded(client, exercise_folder, tmp_path / "first", source).outcome is Outcome.ERROR
    assert len(read_recording(tmp_path / "first").runs[0].calls) == 1
    source = (
        "import torch\n\n\ndef twice(number):\n    x = torch.ones(1 << 20, device='cuda')\n"
        "    torch.empty(1 << 40, device='cuda')\n    return x\n"
    )
    assert graded(client, exercise_folder, tmp_path / "rec", source).outcome is Outcome.OUT_OF_MEMORY
    recording = read_recording(tmp_path / "rec")
    [call] = recording.runs[0].calls
    assert call.stopped
    assert (call.peak_bytes, call.peak_line) == (4 << 20, 5)
    path = recording.trace_path(call)
    assert path is not None
    assert [event.line for event in read_trace(str(path)) if event.kind is Kind.OUT_OF_MEMORY] == [6]


def test_invalid_traces_are_left_out_and_unwritable_folders_ignored(
    client: GradingClient, exercise_folder: Path, tmp_path: Path
) -> None:
    source = (
        "from gpututor.trace.columns import Trace\n\n\ndef twice(number):\n"
        "    Trace.to_json = lambda trace: {'length': -1}\n    raise ValueError('on purpose')\n"
    )
    report = graded(client, exercise_folder, tmp_path / "rec", source)
    assert report.outcome in (Outcome.ERROR, Outcome.NEEDS_REVIEW)
    assert read_recording(tmp_path / "rec").runs[0].calls == ()
    (tmp_path / "file").write_text("in the way")
    report = graded(client, exercise_folder, tmp_path / "file")
    assert report.outcome is Outcome.PASSED
