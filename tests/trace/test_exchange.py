"""A trace on its way to another process: it arrives whole, fits into a frame, and what is none is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.protocol.frames import Bounds
from gpututor.trace.columns import LIMIT, TYPES, Trace, TraceError
from gpututor.trace.events import DTYPES, Kind
from gpututor.trace.serialization import trace_from_json, trace_to_json
from tests.support.traces import filled


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_a_trace_arrives_as_it_was_sent(count: int) -> None:
    trace, events = filled(count, seed=count)
    trace.dropped = 3
    arrived = trace_from_json(json.loads(json.dumps(trace_to_json(trace), allow_nan=False)))
    assert list(arrived) == events
    assert arrived.dropped == 3


def test_texts_that_no_event_has_do_not_travel_and_long_ones_are_cut() -> None:
    trace = Trace()
    for number in range(10):
        trace.add(Kind.RANGE, f"{'long' * 1000}{number}", f"cuda:{number}")
    sent = trace_to_json(trace.since(8))
    assert sent["devices"] == ["", "cuda:8", "cuda:9"]
    assert [len(text) for text in sent["names"]] == [0, 1000]
    assert [event.name for event in trace_from_json(sent)] == [("long" * 250)] * 2


def test_the_longest_trace_of_a_call_fits_into_a_frame() -> None:
    sample = 50_000
    trace = Trace()
    for index in range(sample):
        kind = (Kind.KERNEL, Kind.KERNEL, Kind.ALLOCATE, Kind.FREE, Kind.TRANSFER, Kind.SYNCHRONISE)[index % 6]
        launched = 10_000_000_000 + 6_543 * index
        trace.add(
            kind,
            f"aten::operator_{index % 200}",
            "cuda:0",
            stream=index % 3,
            size_bytes=123_456_789 + index,
            flops=123_456_789_000.0 + index if kind is Kind.KERNEL else 0.0,
            launched=launched,
            start=launched + 987_654,
            end=launched + 1_987_654,
            allocated=9_876_543_210 + index if kind in (Kind.ALLOCATE, Kind.FREE) else 0,
            file="solution.py",
            line=1 + index % 300,
        )
    text = json.dumps(trace_to_json(trace), separators=(",", ":"))
    assert len(text) * (LIMIT / sample) < Bounds().header_bytes * 0.9


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
            for name, value in [
                ("kind", 0),
                ("kind", len(Kind) + 1),
                ("kind", [1, 0]),
                ("name", 2),
                ("name", -1),
                ("device", [1, 2]),
                ("file", 5),
                ("asynchronous", 2),
                ("dtype", len(DTYPES)),
                ("dtype", -1),
                ("partner", 2),
                ("partner", -2),
                ("size_bytes", -1),
                ("size_bytes", 1.0),
                ("flops", [1.0, float("inf")]),
                ("flops", float("nan")),
                ("flops", 10**400),
                ("launched", -2),
                ("launched", [1 << 62, 1 << 62]),
                ("start", -5),
                ("end", [0, -2]),
                ("line", -1),
                ("line", 1 << 31),
            ]
        ],
    ],
)
def test_what_is_no_trace_is_refused(data: object) -> None:
    with pytest.raises(TraceError):
        trace_from_json(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["length", "dropped", "names", "devices", "files", *TYPES]), json_values)
def test_any_part_replaced_by_anything_is_read_or_refused(name: str, value: Any) -> None:
    data = valid()
    (data["columns"] if name in TYPES else data)[name] = value
    try:
        arrived = trace_from_json(data)
    except TraceError:
        return
    assert len(list(arrived)) == 2
    assert trace_to_json(arrived)["length"] == 2
