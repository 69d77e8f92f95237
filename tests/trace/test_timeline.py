"""The picture of a trace: its lanes, and cells that agree with a slow and simple count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.trace.events import Kind
from gpututor.trace.timeline import LAUNCH, Lane, LaneKind, SpanKind, TimelineLayout, edges_of
from tests.support.traces import US, Program, lane_of, layout_of


def names(layout: TimelineLayout) -> list[str]:
    return [lane.name for lane in layout.lanes]


def overlapping() -> Program:
    """Copies up on one stream, kernels on another, a copy back, a wait, work on the CPU."""
    program = Program()
    for number in range(3):
        program.copy(3, 40 * US, asynchronous=True, stream=7)
        program.kernel(4, 30 * US, name=f"aten::mm{number}")
    program.copy(5, 20 * US, up=False)
    program.wait(6)
    program.compute(7, 10 * US)
    return program


def test_each_stream_and_each_direction_of_copies_has_a_lane() -> None:
    layout = layout_of(overlapping())
    assert names(layout) == ["host", "to the device", "default stream", "to the host"]
    kinds = [LaneKind.HOST, LaneKind.TO_DEVICE, LaneKind.STREAM, LaneKind.TO_HOST]
    assert [lane.kind for lane in layout.lanes] == kinds
    assert [len(lane) for lane in layout.lanes[1:]] == [3, 3, 1]


def test_lanes_name_devices_and_number_streams_with_addresses() -> None:
    program = Program()
    program.kernel(1, US)
    for device in ("cuda:0", "cuda:1"):
        program.trace.add(Kind.KERNEL, "aten::mm", device, stream=2, launched=10, start=20, end=30)
    program.trace.add(
        Kind.TRANSFER, "aten::copy_", "cuda:1", source="cuda:0", target="cuda:1", launched=10, start=40, end=50
    )
    lanes = names(layout_of(program))
    assert lanes == ["host", "cuda:0 default", "cuda:0 stream 2", "cuda:1 stream 2", "cuda:1 from cuda:0"]
    program = Program()
    for stream in (94_000_000, 95_000_000):
        program.trace.add(Kind.KERNEL, "aten::mm", "cuda:0", stream=stream, launched=1, start=2, end=3)
    assert names(layout_of(program)) == ["host", "stream 1", "stream 2"]


def test_lanes_are_grouped_by_rank() -> None:
    programs = [Program(), Program("cuda:1")]
    for program in programs:
        program.kernel(1, US)
        program.trace.add(Kind.COLLECTIVE, "c10d::allreduce_", program.device, stream=10**6, start=10, end=90)
    layout = layout_of(*programs)
    ranked = [f"rank {rank} {lane}" for rank in (0, 1) for lane in ("host", "default", "collectives")]
    assert names(layout) == ranked
    assert [lane.process for lane in layout.lanes] == [0, 0, 0, 1, 1, 1]


def test_nested_ranges_have_a_lane_for_each_depth() -> None:
    program = Program()
    for name, start, end in (("step", 0, 100), ("forward", 0, 40), ("backward", 40, 100), ("step", 100, 200)):
        program.trace.add(Kind.RANGE, name, "cpu", launched=start, start=start, end=end)
    layout = layout_of(program)
    assert {lane.name: len(lane) for lane in layout.lanes} == {"ranges": 2, "ranges 2": 2}


def test_the_hosts_lane_has_waits_work_launches_and_blocking_copies() -> None:
    program = overlapping()
    program.copy(8, 25 * US)
    host = lane_of(layout_of(program), "host")
    counts = {SpanKind(int(kind)): int((host.span == kind).sum()) for kind in np.unique(host.span)}
    assert counts == {SpanKind.WAIT: 1, SpanKind.COMPUTE: 1, SpanKind.HOST_COPY: 1, SpanKind.LAUNCH: 8}
    held = int(np.flatnonzero(host.span == SpanKind.HOST_COPY)[0])
    assert host.end[held] - host.start[held] == 25 * US


def test_launches_do_not_overlap_earlier_work() -> None:
    program = Program()
    program.kernel(1, US, launch=50 * US)
    program.kernel(1, US, launch=2 * US)
    program.compute(2, 10 * US)
    program.kernel(3, US, launch=1 * US)
    host = lane_of(layout_of(program), "host")
    launches = host.span == SpanKind.LAUNCH
    assert list(zip(host.start[launches].tolist(), host.end[launches].tolist(), strict=True)) == [
        (50 * US - LAUNCH, 50 * US),
        (50 * US, 52 * US),
        (62 * US, 63 * US),
    ]


def test_untimed_work_is_counted_and_an_empty_trace_has_an_empty_layout() -> None:
    program = Program()
    program.trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=10 * US)
    program.trace.add(Kind.KERNEL, "aten::mm", "cuda:0")
    layout = layout_of(program)
    assert layout.untimed == 2
    assert names(layout) == ["host"], "that it was launched is known of one of them"
    assert len(layout.lanes[0]) == 1
    empty = layout_of(Program())
    assert (empty.lanes, empty.events, empty.untimed, len(empty.stops)) == ((), 0, 0, 0)


def test_a_hazard_belongs_to_the_later_work() -> None:
    program = Program()
    earlier = program.kernel(1, 50 * US, stream=1)
    program.kernel(2, 10 * US)
    hazard = program.hazard(2, "read after write", earlier, stream=0)
    lane = lane_of(layout_of(program), "default stream")
    assert lane.hazard.tolist() == [hazard]
    cells = lane.visible(0, 100 * US, 10)
    assert np.flatnonzero(cells.hazard).tolist() == [1], "where the kernel begins"


def test_other_hazards_and_failed_allocations_belong_to_the_host() -> None:
    program = Program()
    earlier = program.kernel(1, 50 * US, stream=1)
    program.now += 30 * US
    program.hazard(3, "freed in use", earlier)
    program.out_of_memory(4, 1 << 40)
    host = lane_of(layout_of(program), "host")
    assert host.span.tolist() == [SpanKind.LAUNCH, SpanKind.HAZARD, SpanKind.OUT_OF_MEMORY]
    assert (host.hazard >= 0).tolist() == [False, True, False]


def test_a_last_event_without_length_is_visible() -> None:
    program = Program()
    program.kernel(1, 50 * US)
    program.now = 100 * US
    program.out_of_memory(4, 1 << 40)
    layout = layout_of(program)
    cells = lane_of(layout, "host").visible(layout.begin, layout.finish, 10)
    assert (cells.count[-1], cells.kind[-1], bool(cells.hazard[-1])) == (1, SpanKind.OUT_OF_MEMORY, True)


def test_stops_are_visited_in_the_order_of_time() -> None:
    program = Program()
    earlier = program.kernel(1, 50 * US, stream=1)
    program.wait(2)
    program.kernel(3, 10 * US)
    program.hazard(3, "read after write", earlier, stream=0)
    program.now += US
    program.wait(4)
    layout = layout_of(program)
    seen, here = [], (0, 0)
    while (stop := layout.stop_after(*here)) is not None:
        here = stop
        seen.append(here)
    lanes = [layout.lanes[lane].name for lane, _ in seen]
    assert lanes == ["host", "default stream", "host"]
    back = [here]
    while (stop := layout.stop_after(*back[-1], -1)) is not None:
        back.append(stop)
    assert back[::-1] == seen


def test_a_launch_and_its_work_lead_to_each_other() -> None:
    layout = layout_of(overlapping())
    host = layout.lanes[0]
    for number in np.flatnonzero(host.span == SpanKind.LAUNCH).tolist():
        there = layout.other_end(0, number)
        assert there is not None
        assert layout.other_end(*there) == (0, number)
    wait = int(np.flatnonzero(host.span == SpanKind.WAIT)[0])
    assert layout.other_end(0, wait) is None


@dataclass(frozen=True)
class Piece:
    """A span of the host: its kind, beginning and end."""

    kind: Kind
    start: int
    end: int


pieces = st.builds(
    lambda kind, start, length: Piece(kind, start, start + length),
    st.sampled_from([Kind.KERNEL, Kind.SYNCHRONISE]),
    st.integers(0, 500),
    st.integers(0, 120),
)


def host_with(pieces: list[Piece]) -> Lane:
    program = Program()
    for piece in pieces:
        device = "cpu" if piece.kind is Kind.KERNEL else "cuda:0"
        program.trace.add(piece.kind, "name", device, launched=piece.start, start=piece.start, end=piece.end)
    return layout_of(program).lanes[0]


def seen_end(piece: Piece) -> int:
    """Return the end of a piece as drawn: at least a nanosecond after its start."""
    return max(piece.end, piece.start + 1)


@given(st.lists(pieces, min_size=1, max_size=30), st.integers(0, 600), st.integers(1, 400), st.integers(1, 40))
def test_cells_agree_with_a_count_of_every_nanosecond(
    drawn: list[Piece], begin: int, length: int, columns: int
) -> None:
    lane = host_with(drawn)
    cells = lane.visible(begin, begin + length, columns)
    edges = edges_of(begin, begin + length, columns)
    for column in range(columns):
        moments = range(int(edges[column]), int(edges[column + 1]))
        covered = {
            kind: sum(
                any(piece.kind is kind and piece.start <= at < seen_end(piece) for piece in drawn) for at in moments
            )
            for kind in (Kind.SYNCHRONISE, Kind.KERNEL)
        }
        either = sum(any(piece.start <= at < seen_end(piece) for piece in drawn) for at in moments)
        touching = [piece for piece in drawn if piece.start < moments.stop and seen_end(piece) > moments.start]
        assert cells.count[column] == len(touching), "no event that is in the cell is missing, and no other is counted"
        assert cells.fill[column] == pytest.approx(either / len(moments))
        assert bool(cells.wait[column]) == bool(covered[Kind.SYNCHRONISE])
        most = max(covered, key=lambda kind: covered[kind])
        wanted = {Kind.SYNCHRONISE: SpanKind.WAIT, Kind.KERNEL: SpanKind.COMPUTE}[most] if covered[most] else 0
        assert cells.kind[column] == wanted
        if touching:
            first = int(cells.first[column])
            assert lane.start[first] < moments.stop
            assert max(lane.end[first], lane.start[first] + 1) > moments.start


@given(st.lists(pieces, min_size=1, max_size=30), st.integers(1, 80))
def test_every_event_is_visible_in_the_whole_time(drawn: list[Piece], columns: int) -> None:
    lane = host_with(drawn)
    end = max(map(seen_end, drawn))
    cells = lane.visible(0, end, columns)
    edges = edges_of(0, end, columns)
    for piece in drawn:
        column = int(np.searchsorted(edges, piece.start, side="right")) - 1
        assert cells.count[column] > 0
        assert cells.kind[column] > 0


@given(st.lists(pieces, min_size=1, max_size=30), st.integers(0, 700))
def test_no_event_is_nearer_than_the_nearest(drawn: list[Piece], moment: int) -> None:
    lane = host_with(drawn)
    nearest = lane.nearest(moment)
    assert lane.distance(nearest, moment) == min(lane.distance(number, moment) for number in range(len(lane)))


def test_cells_have_whole_nanoseconds() -> None:
    assert edges_of(5, 8, 3).tolist() == [5, 6, 7, 8]
    assert edges_of(5, 6, 4).tolist() == [5, 6, 7, 8, 9]
    assert edges_of(0, 10, 4).tolist() == [0, 2, 5, 7, 10]
