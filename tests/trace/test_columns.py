"""The trace's columns: they return the stored events, in any thread and at any time, and as arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.trace.arrays import Intervals, TimeShares, TraceArrays, common, merged, time_shares, within
from gpututor.trace.columns import BLOCK, TYPES, Trace
from gpututor.trace.events import Kind, lines_of
from gpututor.trace.serialization import trace_from_json, trace_to_json
from tests.support.threads import started
from tests.support.traces import MS, US, Program, filled


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17])
def test_events_are_read_in_the_order_in_which_they_were_added(count: int) -> None:
    trace, events = filled(count)
    assert len(trace) == count
    assert list(trace) == events
    assert sum(trace.kinds().values()) == count
    assert trace.kinds().get(Kind.HAZARD, 0) == sum(event.kind is Kind.HAZARD for event in events)
    assert list(trace.column("size_bytes")) == [event.size_bytes for event in events]


def test_unknown_times_can_be_set_later() -> None:
    trace = Trace(limit=1)
    index = trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=5)
    assert [(event.launched, event.start, event.end, event.duration) for event in trace] == [(5, -1, -1, 0)]
    trace.set_times(index, 7, 12)
    trace.set_times(trace.add(Kind.KERNEL, "aten::mm", "cuda:0"), 1, 2)
    assert [(event.launched, event.start, event.end, event.duration) for event in trace] == [(5, 7, 12, 5)]


def test_events_after_the_limit_are_only_counted() -> None:
    trace = Trace(limit=2)
    assert [trace.add(Kind.KERNEL, "aten::mm", "cuda:0") for _ in range(5)] == [0, 1, -1, -1, -1]
    assert (len(trace), trace.dropped, trace.since(1).dropped) == (2, 3, 3)
    endless = Trace(limit=None)
    for _ in range(3):
        endless.add(Kind.KERNEL, "aten::mm", "cuda:0")
    assert (len(endless), endless.dropped) == (3, 0)


def test_a_complete_trace_gives_the_same_events_each_time() -> None:
    trace, events = filled(BLOCK + 5)
    assert list(trace.completed()) == list(trace) == events


def test_a_part_of_a_trace_renumbers_partners() -> None:
    trace = Trace()
    for partner in (-1, 0, 1, 2, -1):
        trace.add(Kind.HAZARD, "read after write", "cuda:0", partner=partner, file="a.py", line=3)
    part = trace.since(2)
    assert [event.partner for event in part] == [-1, 0, -1]
    assert part.add(Kind.KERNEL, "aten::add", "cuda:3") == 3
    assert [event.device for event in part] == ["cuda:0"] * 3 + ["cuda:3"]
    assert [event.partner for event in trace] == [-1, 0, 1, 2, -1]
    assert len(trace.since(5)) == len(trace.since(9)) == 0


@pytest.mark.parametrize("start", [BLOCK - 3, BLOCK, BLOCK + 3])
def test_long_parts_keep_every_field(start: int) -> None:
    trace, events = filled(2 * BLOCK + 5)
    for event, before in zip(trace.since(start), events[start:], strict=True):
        partner = before.partner - start
        expected = {name: getattr(before, name) for name in TYPES} | {"partner": max(partner, -1)}
        assert {name: getattr(event, name) for name in TYPES} == expected


def test_incomplete_events_are_left_out() -> None:
    # As when Ctrl-C comes between the two: the number is taken, the row stays empty.
    trace = Trace()
    trace.add(Kind.KERNEL, "first", "cuda:0")
    next(trace._numbers)
    trace.add(Kind.KERNEL, "second", "cuda:0")
    trace.add(Kind.HAZARD, "read after write", "cuda:0", partner=2)
    assert [event.name for event in trace] == ["first", "second", "read after write"]
    assert [event.partner for event in trace.since(0)] == [-1, -1, 1]
    assert list(trace_from_json(trace_to_json(trace))) == list(trace.since(0))
    assert trace.kinds() == {Kind.KERNEL: 2, Kind.HAZARD: 1}


def test_threads_can_add_events_at_once() -> None:
    trace, each = Trace(), 3 * BLOCK
    indexes: dict[int, list[int]] = {number: [] for number in range(1, 5)}

    def work(number: int) -> None:
        for line in range(1, each + 1):
            texts = f"{number}", f"cuda:{number}"
            indexes[number].append(trace.add(Kind.KERNEL, *texts, stream=number, file=f"{number}.py", line=line))

    for thread in [started(work, number) for number in indexes]:
        thread.join()
    events = list(trace)
    assert len(events) == 4 * each
    for number, mine in indexes.items():
        assert mine == sorted(mine)
        added = [events[index] for index in mine]
        assert [event.line for event in added] == list(range(1, each + 1))
        facts = {(event.name, event.device, event.stream, event.file) for event in added}
        assert facts == {(f"{number}", f"cuda:{number}", number, f"{number}.py")}


def test_lines_with_most_events_come_first() -> None:
    trace = Trace()
    for line in (4, 9, 9, None):
        trace.add(Kind.SYNCHRONISE, "aten::item", "cuda:0", file="a.py" if line else "", line=line)
    assert lines_of(trace) == [(9, 2), (4, 1)]


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 12)), max_size=8)


def intervals(drawn: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    """Return intervals (start, length), and the moments that they cover."""
    drawn = sorted(drawn)
    start = np.array([begin for begin, _ in drawn], dtype=np.int64)
    end = start + np.array([length for _, length in drawn], dtype=np.int64)
    return Intervals(start, end), {at for begin, length in drawn for at in range(begin, begin + length)}


@given(spans, spans, st.integers(0, 60), st.integers(0, 60))
def test_intervals_behave_like_sets_of_moments(
    left: list[tuple[int, int]], right: list[tuple[int, int]], begin: int, length: int
) -> None:
    (first, covered), (second, also_covered) = intervals(left), intervals(right)
    assert merged(first).total == len(covered)
    assert common(merged(first), merged(second)) == len(covered & also_covered)
    assert merged(within(first, begin, begin + length)).total == len(covered & set(range(begin, begin + length)))


def test_each_moment_counts_once_computing_before_copying() -> None:
    p = Program()
    p.copy(1, 100 * US, asynchronous=True, stream=1)
    p.kernel(2, 50 * US)  # beside the copy
    p.wait(3)
    p.compute(4, 30 * US)
    (shares,) = time_shares(TraceArrays(p.trace))
    assert (shares.computing, shares.copying) == (50 * US, 50 * US)
    assert shares.whole == TraceArrays(p.trace).span
    assert shares.idle >= 30 * US


def test_waits_count_only_while_the_device_is_idle() -> None:
    p, short = Program(), Program()
    p.kernel(1, 100 * US)
    p.wait(2)
    p.wait(3)
    (shares,) = time_shares(TraceArrays(p.trace))
    # The second wait finds nothing to wait for; all but the end of the first is during the kernel.
    assert (shares.waiting, shares.computing) == (3 * US, 100 * US)
    short.kernel(1, MS, launch=0)
    assert time_shares(TraceArrays(short.trace), 4 * MS) == (TimeShares("cuda:0", MS, 0, 0, 3 * MS),)
