"""Charts in characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpututor.trace.formatting import area, bar, parts


def test_an_area_is_filled_from_below_in_eighths() -> None:
    assert area([0, 1, 8, 12, 16], 16, 2) == ["   ▄█", " ▁███"]


def test_a_little_is_seen() -> None:
    assert area([1], 10_000, 3) == [" ", " ", "▁"]
    assert bar(1, 10_000, 20) == "▏"
    assert bar(0, 10_000, 20) == ""


def test_a_bar_fills_its_width_at_the_top() -> None:
    assert bar(10, 10, 5) == "█████"
    assert bar(5, 10, 5) == "██▌"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6), st.integers(0, 80))
def test_parts_fill_the_width_and_leave_nothing_out(shares: list[float], width: int) -> None:
    taken = parts(shares, width)
    if any(shares):
        assert sum(taken) == width
        shown = sum(1 for share in shares if share > 0)
        assert width < shown or all(columns > 0 for share, columns in zip(shares, taken, strict=True) if share > 0)
    assert all(columns == 0 for share, columns in zip(shares, taken, strict=True) if share == 0)
