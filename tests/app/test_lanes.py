"""Lanes of the timeline as cells, zooming, panning and the ticks of the axis."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpututor.app.trace_view.lanes import TimeWindow, columns_of, draw, ticks
from gpututor.trace.arrays import TraceArrays
from gpututor.trace.events import Kind
from gpututor.trace.timeline import Lane, SpanKind, TimelineLayout
from tests.support.traces import US, Program


def picture_of(program: Program) -> TimelineLayout:
    return TimelineLayout([("", TraceArrays(program.trace))])


def lane_of(picture: TimelineLayout, name: str) -> Lane:
    return next(lane for lane in picture.lanes if lane.name == name)


def drawn(program: Program, name: str, columns: int = 20, rows: int = 1) -> list[str]:
    picture = picture_of(program)
    window = TimeWindow.whole(picture.begin, picture.finish, columns)
    lines = draw(picture, lane_of(picture, name), window, rows=rows)
    return ["".join(glyph.character for glyph in line) for line in lines]


def kernels(*times: tuple[int, int], name: str = "aten::mm") -> Program:
    program = Program()
    for start, end in times:
        program.trace.add(Kind.KERNEL, name, "cuda:0", launched=start, start=start, end=end)
    return program


def test_bars_show_ends_load_borders_and_names() -> None:
    program = kernels((1_000, 3_250), (8_000, 10_000))
    program.trace.add(Kind.RANGE, "all", "cpu", launched=0, start=0, end=10_000)
    assert drawn(program, "default stream", 10) == [" ██▎    ██"]
    program = kernels(*((number * 100, number * 100 + 50) for number in range(100)))
    program.trace.add(Kind.RANGE, "all", "cpu", launched=0, start=0, end=10_000)
    assert drawn(program, "default stream", 10) == ["▄" * 10]
    assert drawn(program, "default stream", 10, rows=2) == [" " * 10, "█" * 10]
    assert drawn(kernels((0, 10_000), (10_000, 20_000)), "default stream", 8)[0].count("▉") == 1
    assert drawn(kernels((0, 20_000)), "default stream") == ["█ mm ███████████████"]
    long_name = kernels((0, 20_000), name="aten::native_layer_norm_backward")
    assert drawn(long_name, "default stream") == ["█ native_layer_no… █"]
    assert drawn(kernels((0, 20_000), name="aten::字😀\x1b["), "default stream")[0].startswith("█ ??")


def test_bars_begin_in_reverse_and_the_cursor_marks_its_columns() -> None:
    program = kernels((1_500, 4_000))
    program.trace.add(Kind.RANGE, "all", "cpu", launched=0, start=0, end=10_000)
    picture = picture_of(program)
    line = draw(picture, lane_of(picture, "default stream"), TimeWindow.whole(0, 10_000, 10))[0]
    drawn = [(glyph.character, glyph.reverse) for glyph in line[:4]]
    assert drawn == [(" ", False), ("▌", True), ("█", False), ("█", False)]
    picture = picture_of(kernels((0, 5_000), (5_000, 10_000)))
    window = TimeWindow.whole(0, 10_000, 10)
    lane = lane_of(picture, "default stream")
    assert lane.span.tolist() == [SpanKind.KERNEL, SpanKind.KERNEL]
    line = draw(picture, lane, window, selected=1)[0]
    assert [glyph.selected for glyph in line] == [False] * 5 + [True] * 5


def test_copies_waits_launches_and_hazards_differ_without_colors() -> None:
    program = Program()
    program.copy(1, 100 * US)
    program.kernel(2, 100 * US)
    program.wait(3)
    host = drawn(program, "host", 60)[0]
    assert {"▒", "|", "░"} <= set(host)
    assert "█" not in host
    assert drawn(program, "to the device", 60)[0].strip().startswith("▒ 1.00 MiB ▒▒")
    program = Program()
    program.copy(1, 1 * US)
    program.kernel(2, 100 * US)
    program.copy(3, 1 * US, up=False)
    assert set(drawn(program, "to the device")[0]) == {" ", "→"}
    above, below = drawn(program, "to the host", rows=2)
    assert set(above) == {" "}
    assert set(below) == {" ", "←"}
    program = Program()
    for number in range(200):
        program.kernel(1, 1 * US)
        if number == 100:
            program.read(2, 1 * US, launch=1 * US)
    assert drawn(program, "host")[0].count("░") == 1
    program = kernels((0, 50_000))
    program.trace.add(Kind.HAZARD, "read after write", "cuda:0", launched=0, start=0, end=0)
    program.now = 50_000
    program.out_of_memory(3, 1 << 40)
    assert drawn(program, "default stream")[0][0] == "!"
    assert drawn(program, "host")[0][-1] == "×"


@given(
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 400)), min_size=1, max_size=40),
    st.integers(1, 120),
    st.integers(1, 2),
    st.integers(0, 3_000),
    st.sampled_from([1, 2, 16]),
)
def test_every_event_leaves_a_mark_where_it_is(
    times: list[tuple[int, int]], columns: int, rows: int, around: int, closer: int
) -> None:
    program = kernels(*((start, start + length) for start, length in times))
    picture = picture_of(program)
    window = TimeWindow.whole(picture.begin, picture.finish, columns).zoomed(1 / closer, around)
    lane = lane_of(picture, "default stream")
    lines = draw(picture, lane, window, rows=rows)
    assert [len(line) for line in lines] == [columns] * rows
    for number in range(len(lane)):
        for column in columns_of(lane, number, window):
            assert any(line[column].character != " " or line[column].reverse or line[column].on_bar for line in lines)
    marked = {column for number in range(len(lane)) for column in columns_of(lane, number, window)}
    for column in set(range(columns)) - marked:
        assert all(line[column].character == " " for line in lines), "and nothing stands where nothing was"


wholes = st.builds(
    lambda least, span, columns: TimeWindow.whole(least, least + span, columns),
    st.integers(0, 10**12),
    st.integers(1, 10**11),
    st.integers(8, 250),
)
moves = st.lists(
    st.tuples(st.sampled_from(["in", "out", "left", "right", "showing", "around"]), st.floats(0, 1)), max_size=25
)


def moved(window: TimeWindow, steps: list[tuple[str, float]]) -> TimeWindow:
    for step, share in steps:
        moment = window.least + round(share * (window.most - window.least))
        match step:
            case "in":
                window = window.zoomed(0.5, moment)
            case "out":
                window = window.zoomed(2, moment)
            case "left":
                window = window.panned(-0.5)
            case "right":
                window = window.panned(0.5)
            case "showing":
                window = window.showing(moment, moment + 10)
            case _:
                window = window.zoomed_to(moment, moment + 10)
    return window


@given(wholes, moves)
def test_zooming_and_panning_keep_the_window_inside_the_timeline(
    window: TimeWindow, steps: list[tuple[str, float]]
) -> None:
    now = moved(window, steps)
    assert now.least <= now.begin < now.end <= now.most
    assert now.span >= now.columns
    assert now.resized(now.columns) == now


@given(wholes, moves, st.integers(8, 250))
def test_another_width_shows_the_same_time(window: TimeWindow, steps: list[tuple[str, float]], columns: int) -> None:
    before = moved(window, steps)
    after = before.resized(columns)
    assert after.columns == columns
    assert after.span >= columns
    if before.is_whole:
        assert after.is_whole
    elif before.span >= columns:
        assert (after.begin, after.end) == (before.begin, before.end)


def test_zooming_keeps_the_moment_and_only_events_out_of_sight_move_it() -> None:
    window = TimeWindow.whole(0, 100_000, 100)
    closer = window.zoomed(0.5, 30_000)
    assert (closer.begin, closer.end) == (15_000, 65_000)
    assert closer.column(30_000) == window.column(30_000) == 30
    assert closer.zoomed(2, 30_000) == window
    window = TimeWindow.whole(0, 100_000, 100).zoomed(0.1, 50_000)
    assert window.showing(50_000, 51_000) == window
    assert window.showing(0, 46_000) == window, "its end is seen"
    later = window.showing(80_000, 80_500)
    assert later.column(80_000) == 33


@given(wholes, moves)
def test_ticks_are_round_in_order_and_their_labels_do_not_touch(
    window: TimeWindow, steps: list[tuple[str, float]]
) -> None:
    window = moved(window, steps)
    shown = ticks(window)
    for tick, following in pairwise(shown):
        assert tick.column + len(tick.label) < following.column
        assert tick.label != following.label
    assert all(0 <= tick.column < window.columns for tick in shown)


def test_ticks_have_as_many_digits_as_they_need() -> None:
    assert [tick.label for tick in ticks(TimeWindow.whole(500, 400_500, 63))] == ["0", "100 µs", "200 µs", "300 µs"]
    whole = TimeWindow.whole(0, 2_000_000, 90)
    assert [tick.label for tick in ticks(whole)][:3] == ["0", "0.2 ms", "0.4 ms"]
    assert [tick.label for tick in ticks(whole.zoomed_to(1_500_000, 1_500_100))][:2] == ["1.49990 ms", "1.49995 ms"]
    assert [tick.label for tick in ticks(TimeWindow.whole(0, 10, 30))] == ["0", "10 ns", "20 ns"]
