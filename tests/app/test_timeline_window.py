"""Zooming, panning and the ticks of the axis."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpututor.app.trace_view.lanes import TimeWindow, ticks

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


def test_zooming_leaves_the_moment_where_it_is() -> None:
    window = TimeWindow.whole(0, 100_000, 100)
    closer = window.zoomed(0.5, 30_000)
    assert (closer.begin, closer.end) == (15_000, 65_000)
    assert closer.column(30_000) == window.column(30_000) == 30
    assert closer.zoomed(2, 30_000) == window


def test_only_events_out_of_sight_move_the_window() -> None:
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
    found = ticks(window)
    for tick, following in pairwise(found):
        assert tick.column + len(tick.label) < following.column
        assert tick.label != following.label
    assert all(0 <= tick.column < window.columns for tick in found)


def test_ticks_have_as_many_digits_as_they_need() -> None:
    assert [tick.label for tick in ticks(TimeWindow.whole(500, 400_500, 63))] == ["0", "100 µs", "200 µs", "300 µs"]
    whole = TimeWindow.whole(0, 2_000_000, 90)
    assert [tick.label for tick in ticks(whole)][:3] == ["0", "0.2 ms", "0.4 ms"]
    assert [tick.label for tick in ticks(whole.zoomed_to(1_500_000, 1_500_100))][:2] == ["1.49990 ms", "1.49995 ms"]
    assert [tick.label for tick in ticks(TimeWindow.whole(0, 10, 30))] == ["0", "10 ns", "20 ns"]
