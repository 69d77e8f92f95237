"""Timelines for Chrome and Perfetto: valid JSON, and every event in its lane."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpututor.trace import export
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.export import idle_in, read_processes
from gpututor.trace.serialization import write_trace
from tests.support.traces import MS, US, Program, filled, kernel_trace


def timelines(traces: list[tuple[str, Trace]]) -> list[dict[str, Any]]:
    file = io.StringIO()
    export.write_timelines(traces, file)
    events: list[dict[str, Any]] = json.loads(file.getvalue())["traceEvents"]
    return events


def timeline(trace: Trace) -> list[dict[str, Any]]:
    return timelines([("", trace)])


def sample() -> Program:
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
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}


def test_a_timeline_has_lanes_arrows_counters_and_marks() -> None:
    events = timeline(sample().trace)
    named = lanes(events)
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == ["host", "cuda:0"]
    drawn = [event for event in events if event["ph"] == "X"]
    slices = [(event["name"], named[event["pid"], event["tid"]], event["ts"], event["dur"]) for event in drawn]
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
    (kernel,) = (event for event in drawn if event["dur"] == 100)
    assert kernel["args"] == {"bytes": 1 << 20, "flops": 2e9, "place": "train.py:3"}
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == 4
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"]
        assert any(
            event["ph"] == "X" and (event["pid"], event["tid"], event["ts"]) == (0, start["tid"], start["ts"])
            for event in events
        )
    assert [event["args"]["bytes"] for event in events if event["ph"] == "C"] == [512, 0]
    marks = {event["name"]: event["args"]["words"] for event in events if event["ph"] == "i"}
    assert all(place in marks["hazard: read after write"] for place in ("train.py:4", "train.py:3"))
    assert marks["out of memory"] == "train.py:7"


def test_no_two_slices_of_a_lane_overlap() -> None:
    p = sample()
    for _ in range(2):
        # Two threads that compute at once.
        p.trace.add(Kind.KERNEL, "aten::add", "cpu", launched=200 * US, start=200 * US, end=300 * US)
    by_lane = defaultdict(list)
    for event in timeline(p.trace):
        if event["ph"] == "X":
            by_lane[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in by_lane.values():
        slices.sort()
        assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(slices))
    assert "host (2)" in lanes(timeline(p.trace)).values()


@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_any_trace_makes_valid_json(count: int) -> None:
    assert isinstance(timeline(filled(count)[0]), list)


def test_long_traces_are_drawn_without_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_ARROWS", 2)
    events = timeline(sample().trace)
    assert not [event for event in events if event["ph"] in "sf"]
    assert [event for event in events if event["ph"] == "X" and event["dur"] == 100]


def test_timelines_are_written_in_pieces() -> None:
    sizes: list[int] = []

    class Pieces:
        def write(self, text: str) -> None:
            sizes.append(len(text))

    export.write_timelines([("", kernel_trace(30_000))], Pieces())
    assert len(sizes) > 5
    assert max(sizes) < sum(sizes) / 2


def test_processes_have_hosts_and_devices_and_missing_files_are_left_out(tmp_path: Path) -> None:
    for rank in range(2):
        write_trace(kernel_trace(3), str(tmp_path / f"{rank}.trace"))
    events = timelines(read_processes({tmp_path / f"{rank}.trace": f"rank {rank}" for rank in range(2)}))
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {0: "rank 0 host", 1: "rank 0 cuda:0", 2: "rank 1 host", 3: "rank 1 cuda:0"}
    kernels = [event["pid"] for event in events if event["ph"] == "X" and event["name"] == "aten::1"]
    assert sorted(kernels) == [0, 1, 2, 3]
    ends = [event["id"] for event in events if event["ph"] == "f"]
    assert sorted(ends) == sorted(event["id"] for event in events if event["ph"] == "s")
    assert len(set(ends)) == len(ends) == 8
    assert {name for (pid, _), name in lanes(events).items() if pid == 3} == {"default stream", "collectives"}
    traces = read_processes({tmp_path / f"{rank}.trace": f"rank {rank}" for rank in (0, 2, 1)})
    assert [(name, len(trace)) for name, trace in traces] == [("rank 0", 4), ("rank 1", 4)]


def test_idle_times_are_added() -> None:
    trace = Trace()
    trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=0, start=10, end=20)
    trace.add(Kind.KERNEL, "aten::mm", "cpu", launched=0, start=0, end=100)
    assert idle_in(trace, []) == 0
    assert idle_in(trace, [(15, 30), (25, 40), (0, 5)]) == 25
