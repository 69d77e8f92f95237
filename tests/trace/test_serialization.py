"""Traces as JSON and as files: they arrive unchanged, and other data is rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.protocol.frames import Bounds
from gpututor.trace.columns import LIMIT, TYPES, Trace, TraceError
from gpututor.trace.events import DTYPES, Kind
from gpututor.trace.serialization import VERSION, read_trace, trace_from_json, trace_to_json, write_trace
from tests.support.traces import filled, kernel_trace


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_json_keeps_every_event(count: int) -> None:
    trace, events = filled(count, seed=count)
    trace.dropped = 3
    arrived = trace_from_json(json.loads(json.dumps(trace_to_json(trace), allow_nan=False)))
    assert list(arrived) == events
    assert arrived.dropped == 3


def test_json_has_only_used_texts_and_cuts_long_texts() -> None:
    trace = Trace()
    for number in range(10):
        trace.add(Kind.RANGE, f"{'long' * 1000}{number}", f"cuda:{number}")
    sent = trace_to_json(trace.since(8))
    assert sent["devices"] == ["", "cuda:8", "cuda:9"]
    assert [len(text) for text in sent["names"]] == [0, 1000]
    assert [event.name for event in trace_from_json(sent)] == [("long" * 250)] * 2


def test_the_longest_trace_fits_into_a_frame() -> None:
    sample = 50_000
    trace = Trace()
    for index in range(sample):
        kind = (Kind.KERNEL, Kind.KERNEL, Kind.ALLOCATE, Kind.FREE, Kind.TRANSFER, Kind.SYNCHRONISE)[index % 6]
        launched = 10_000_000_000 + 6_543 * index
        figures: dict[str, Any] = {"stream": index % 3, "size_bytes": 123_456_789 + index, "line": 1 + index % 300}
        figures |= {"launched": launched, "start": launched + 987_654, "end": launched + 1_987_654}
        figures["flops"] = 123_456_789_000.0 + index if kind is Kind.KERNEL else 0.0
        figures["allocated"] = 9_876_543_210 + index if kind in (Kind.ALLOCATE, Kind.FREE) else 0
        trace.add(kind, f"aten::operator_{index % 200}", "cuda:0", file="solution.py", **figures)
    text = json.dumps(trace_to_json(trace), separators=(",", ":"))
    assert len(text) * (LIMIT / sample) < Bounds().header_bytes * 0.9


IMPOSSIBLE: dict[str, list[Any]] = {
    "kind": [0, len(Kind) + 1, [1, 0]],
    "name": [2, -1],
    "device": [[1, 2]],
    "file": [5],
    "asynchronous": [2],
    "dtype": [len(DTYPES), -1],
    "partner": [2, -2],
    "size_bytes": [-1, 1.0],
    "flops": [[1.0, float("inf")], float("nan"), 10**400],
    "launched": [-2, [1 << 62, 1 << 62]],
    "start": [-5],
    "end": [[0, -2]],
    "line": [-1, 1 << 31],
}
"""Values of columns that no trace has."""


def valid() -> dict[str, Any]:
    trace = Trace()
    for line in (3, 4):
        trace.add(Kind.KERNEL, "aten::mm", "cuda:0", size_bytes=line, file="a.py", line=line)
    sent: dict[str, Any] = json.loads(json.dumps(trace_to_json(trace)))
    return sent


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "trace",
        {},
        {"columns": []},
        *[{**valid(), "length": value} for value in (None, -1, True, 1.0, "2", LIMIT + 1, 3, 1 << 70)],
        *[{**valid(), "dropped": value} for value in (None, -1, True, "0")],
        *[
            {**valid(), "names": value}
            for value in (None, [], ["aten::mm"], ["", 3], ["", "a", "a"], ["", "a" * 1001], [""], ["", *"bcdefghij"])
        ],
        *[
            {**valid(), "columns": {**valid()["columns"], name: value}}
            for name in TYPES
            for value in (None, "1", True, [1], [1, 2, 3], [1, None], [1, [1]], [True, True], {"0": 1}, 1 << 80)
            if (name, value) != ("flops", 1 << 80)
        ],
        *[
            {**valid(), "columns": {**valid()["columns"], name: value}}
            for name, values in IMPOSSIBLE.items()
            for value in values
        ],
    ],
)
def test_invalid_json_is_rejected(data: object) -> None:
    with pytest.raises(TraceError):
        trace_from_json(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["length", "dropped", "names", "devices", "files", *TYPES]), json_values)
def test_any_replaced_part_is_read_or_rejected(name: str, value: Any) -> None:
    data = valid()
    (data["columns"] if name in TYPES else data)[name] = value
    try:
        arrived = trace_from_json(data)
    except TraceError:
        return
    assert len(list(arrived)) == 2
    assert trace_to_json(arrived)["length"] == 2


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the file of a trace."""
    write_trace(kernel_trace(), str(tmp_path / "one.trace"))
    return tmp_path / "one.trace"


def test_a_file_keeps_every_event_and_omits_constant_columns(written: Path) -> None:
    trace = kernel_trace()
    trace.dropped = 7
    assert written.stat().st_size < 5000 * 60
    for stored in (trace, Trace()):
        write_trace(stored, str(written))
        arrived = read_trace(str(written))
        assert (list(arrived), arrived.dropped) == (list(stored), stored.dropped)
    assert list(written.parent.iterdir()) == [written]


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b"[]\n", b"nothing", b'{"version": 1}\n', b'{"version": 2, "length": 0}\n', b"\xff\n"]
)
def test_other_and_truncated_files_are_rejected(written: Path, content: bytes) -> None:
    for text in (content, written.read_bytes()[:-1]):
        written.write_bytes(text)
        with pytest.raises(TraceError):
            read_trace(str(written))


@pytest.mark.parametrize("length", [-1, 1 << 40, "3", None, True, 2.0])
def test_impossible_lengths_are_rejected(tmp_path: Path, length: object) -> None:
    head = {"version": VERSION, "length": length, "dropped": 0, "names": [""], "devices": [""], "files": [""]}
    path = tmp_path / "odd.trace"
    path.write_text(json.dumps({**head, "alone": dict.fromkeys(TYPES, 0)}) + "\n")
    with pytest.raises(TraceError, match="is not a trace"):
        read_trace(str(path))
