"""Traces as files, and those of several processes together."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gpututor.trace.columns import Trace, TraceError
from gpututor.trace.events import Kind
from gpututor.trace.export import idle_in, read_processes, write_timelines
from gpututor.trace.serialization import read_trace, write_trace


def _trace(events: int = 5000) -> Trace:
    trace = Trace()
    for number in range(events):
        trace.add(
            Kind.KERNEL, f"aten::{number % 3}", "cuda:0", flops=0.5, launched=number, start=number + 1, end=number + 2
        )
    trace.add(Kind.COLLECTIVE, "c10d::allreduce_", "cuda:0", stream=1_000_000, launched=1, start=2, end=9, line=3)
    return trace


def test_a_trace_comes_back_from_a_file_as_it_was(tmp_path: Path) -> None:
    trace = _trace()
    trace.dropped = 7
    write_trace(trace, str(tmp_path / "one.trace"))
    found = read_trace(str(tmp_path / "one.trace"))
    assert list(found) == list(trace)
    assert found.dropped == 7
    assert [path.name for path in tmp_path.iterdir()] == ["one.trace"]


def test_a_trace_of_nothing_comes_back_too(tmp_path: Path) -> None:
    write_trace(Trace(), str(tmp_path / "none.trace"))
    assert list(read_trace(str(tmp_path / "none.trace"))) == []


def test_columns_that_are_all_the_same_take_no_room(tmp_path: Path) -> None:
    write_trace(_trace(), str(tmp_path / "one.trace"))
    assert (tmp_path / "one.trace").stat().st_size < 5000 * 60


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"[]\n", b"nothing", b'{"version": 1}\n', b'{"version": 2, "length": 0}\n', b"\xff\n"]
)
def test_another_file_is_no_trace(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(TraceError):
        read_trace(str(tmp_path / "other"))


def test_a_file_that_was_cut_is_no_trace(tmp_path: Path) -> None:
    write_trace(_trace(), str(tmp_path / "one.trace"))
    whole = (tmp_path / "one.trace").read_bytes()
    (tmp_path / "one.trace").write_bytes(whole[:-1])
    with pytest.raises(TraceError):
        read_trace(str(tmp_path / "one.trace"))


def test_what_a_killed_process_did_not_write_is_left_out(tmp_path: Path) -> None:
    write_trace(_trace(1), str(tmp_path / "0.trace"))
    write_trace(_trace(2), str(tmp_path / "2.trace"))
    traces = read_processes({tmp_path / f"{rank}.trace": f"rank {rank}" for rank in range(3)})
    assert [(name, len(trace)) for name, trace in traces] == [("rank 0", 2), ("rank 2", 3)]


def test_each_process_has_a_host_and_devices_of_its_own_in_the_timeline(tmp_path: Path) -> None:
    for rank in range(2):
        write_trace(_trace(3), str(tmp_path / f"{rank}.trace"))
    file = io.StringIO()
    write_timelines(read_processes({tmp_path / f"{rank}.trace": f"rank {rank}" for rank in range(2)}), file)
    events = json.loads(file.getvalue())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {0: "rank 0 host", 1: "rank 0 cuda:0", 2: "rank 1 host", 3: "rank 1 cuda:0"}
    kernels = [event["pid"] for event in events if event["ph"] == "X" and event["name"] == "aten::1"]
    assert sorted(kernels) == [0, 1, 2, 3]
    ends = [event["id"] for event in events if event["ph"] == "f"]
    assert sorted(ends) == sorted(event["id"] for event in events if event["ph"] == "s")
    assert len(set(ends)) == len(ends) == 8
    lanes = {event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 3}
    assert lanes == {"default stream", "collectives"}


def test_times_in_which_no_device_worked_are_added_up() -> None:
    trace = Trace()
    trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=0, start=10, end=20)
    trace.add(Kind.KERNEL, "aten::mm", "cpu", launched=0, start=0, end=100)
    assert idle_in(trace, []) == 0
    assert idle_in(trace, [(15, 30), (25, 40), (0, 5)]) == 25
