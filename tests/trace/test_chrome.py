"""The trace as a file: valid JSON, and every event at its place in the picture."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from gpututor.trace import export
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.traces import MS, US, Program, filled


def picture(trace: Trace) -> list[dict[str, Any]]:
    file = io.StringIO()
    export.write_timelines([("", trace)], file)
    events: list[dict[str, Any]] = json.loads(file.getvalue())["traceEvents"]
    return events


def drawn() -> Program:
    p = Program()
    p.allocate(1, 512)
    p.copy(2, 10 * US, asynchronous=True, stream=3)
    written = p.kernel(3, 100 * US, flops=2e9)
    p.kernel(4, 50 * US, stream=3, name='odd "name"\n')
    p.copy(5, 10 * US, up=False)
    p.wait(5, "aten::_local_scalar_dense")
    p.compute(6, 7 * US)
    p.hazard(4, "read after write", written)
    p.out_of_memory(7, 1 << 40)
    p.allocate(8, -512)
    p.trace.add(Kind.RANGE, "outer", "cpu", launched=0, start=0, end=MS)
    return p


def lanes(events: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    return {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}


def test_every_event_is_drawn_in_the_lane_of_its_stream_or_engine() -> None:
    events = picture(drawn().trace)
    named = lanes(events)
    assert [one["args"]["name"] for one in events if one["name"] == "process_name"] == ["host", "cuda:0"]
    slices = [(one["name"], named[one["pid"], one["tid"]], one["ts"], one["dur"]) for one in events if one["ph"] == "X"]
    for expected in (
        ("aten::mm", "default stream", 10, 100),
        ('odd "name"\n', "stream 3", 15, 50),
        ("aten::_to_copy", "copies to the device", 5, 10),
        ("aten::_to_copy", "copies to the host", 110, 10),
        ("aten::_local_scalar_dense", "host", 120, 3),
        ("aten::add", "host", 123, 7),
        ("outer", "ranges", 0, 1000),
    ):
        assert expected in slices
    (kernel,) = (one for one in events if one["ph"] == "X" and one["dur"] == 100)
    assert kernel["args"] == {"bytes": 1 << 20, "flops": 2e9, "place": "train.py:3"}


def test_each_launch_has_an_arrow_to_its_work_from_a_slice_of_the_host() -> None:
    events = picture(drawn().trace)
    starts = {one["id"]: one for one in events if one["ph"] == "s"}
    ends = {one["id"]: one for one in events if one["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == 4
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"]
        assert any(
            one["ph"] == "X" and (one["pid"], one["tid"], one["ts"]) == (0, start["tid"], start["ts"]) for one in events
        )


def test_memory_is_a_counter_and_hazards_are_marks_with_words() -> None:
    events = picture(drawn().trace)
    assert [one["args"]["bytes"] for one in events if one["ph"] == "C"] == [512, 0]
    marks = {one["name"]: one["args"]["words"] for one in events if one["ph"] == "i"}
    assert marks["hazard: read after write"].startswith("train.py:4 reads what aten::mm at train.py:3 writes")
    assert marks["out of memory"] == "train.py:7"


def test_no_two_slices_of_a_lane_overlap() -> None:
    p = drawn()
    for _ in range(2):
        # Two threads that compute at once.
        p.trace.add(Kind.KERNEL, "aten::add", "cpu", launched=200 * US, start=200 * US, end=300 * US)
    by_lane = defaultdict(list)
    for one in picture(p.trace):
        if one["ph"] == "X":
            by_lane[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))
    for slices in by_lane.values():
        slices.sort()
        assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(slices))
    assert "host (2)" in lanes(picture(p.trace)).values()


@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_any_trace_gives_valid_json(count: int) -> None:
    assert isinstance(picture(filled(count)[0]), list)


def test_long_traces_are_drawn_without_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_ARROWS", 2)
    events = picture(drawn().trace)
    assert not [one for one in events if one["ph"] in "sf"]
    assert [one for one in events if one["ph"] == "X" and one["dur"] == 100]


def test_it_is_written_piece_by_piece() -> None:
    class Pieces:
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def write(self, text: str) -> None:
            self.sizes.append(len(text))

    p = Program()
    for line in range(1, 30_001):
        p.kernel(line, US)
    pieces = Pieces()
    export.write_timelines([("", p.trace)], pieces)
    assert len(pieces.sizes) > 5
    assert max(pieces.sizes) < sum(pieces.sizes) / 2
