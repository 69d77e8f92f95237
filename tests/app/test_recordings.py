"""The recordings that other tests are given are such as the judge writes."""

from __future__ import annotations

from pathlib import Path

from gpututor.trace.arrays import TraceArrays
from gpututor.trace.hazards import hazards_of
from gpututor.trace.serialization import read_trace
from gpututor.trace.summary import lines_of, summary
from tests.support.recordings import FILE, long_trace, make_recording, small_trace


def test_a_recording_made_by_hand_agrees_with_the_summary_of_its_trace(tmp_path: Path) -> None:
    recording = make_recording(tmp_path, small_trace(), small_trace(factor=2), baseline=small_trace(factor=3))
    (run,) = recording.runs
    path = recording.trace_path(run.calls[0])
    assert path is not None
    rows = TraceArrays(read_trace(str(path)))
    assert len(hazards_of(rows)) == 1
    found = {one.place.line: one for one in lines_of(rows)}
    for cost in run.lines:
        assert cost.kernels == 2 * found[cost.line].kernel_count
        assert cost.copy_ns == 3 * found[cost.line].copy_time
        assert cost.waits == 2 * found[cost.line].waits
    device = summary(rows.trace).devices[0]
    assert (run.calls[0].peak_bytes, run.calls[0].peak_line) == (device.peak_bytes, device.peak_place.line)
    assert device.streams == 2
    assert run.baselines[0].calls[1].elapsed_ns == 3 * run.calls[0].elapsed_ns


def test_a_long_trace_is_as_long_as_it_says(tmp_path: Path) -> None:
    run = make_recording(tmp_path, long_trace(5000)).runs[0]
    assert run.calls[0].events == 5000
    assert sum(cost.kernels + cost.copies + cost.waits for cost in run.lines) == 5000
    assert FILE.endswith(".py")
