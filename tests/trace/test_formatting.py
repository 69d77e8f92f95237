"""Numbers with units, bars and area charts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.trace.formatting import area, bar, duration, exact_size, parts, share, size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (duration(0), "0 ns"),
        (duration(999), "999 ns"),
        (duration(999_499), "999 µs"),
        (duration(999_600), "1.00 ms"),
        (duration(12_345_678), "12.3 ms"),
        (duration(3.2e12), "3,200 s"),
        (size(0), "0 bytes"),
        (size(1), "1 byte"),
        (size(2), "2 bytes"),
        (exact_size(1), "1 byte"),
        (exact_size(1536), "1,536 bytes"),
        (size(1023), "1023 bytes"),
        (size(1024), "1.00 KiB"),
        (size(16 << 30), "16.0 GiB"),
        (share(0.0), "0 %"),
        (share(0.004), "0.4 %"),
        (share(0.37), "37 %"),
        (share(1.0), "100 %"),
    ],
)
def test_numbers_have_three_figures_and_a_unit(text: str, expected: str) -> None:
    assert text == expected


def test_an_area_is_filled_from_below_in_eighths() -> None:
    assert area([0, 1, 8, 12, 16], 16, 2) == ["   ▄█", " ▁███"]


def test_small_values_are_visible_and_a_bar_fills_its_width_at_the_top() -> None:
    assert area([1], 10_000, 3) == [" ", " ", "▁"]
    assert (bar(1, 10_000, 20), bar(0, 10_000, 20)) == ("▏", "")
    assert (bar(10, 10, 5), bar(5, 10, 5)) == ("█████", "██▌")


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6), st.integers(0, 80))
def test_parts_fill_the_width_and_show_each_share(shares: list[float], width: int) -> None:
    taken = parts(shares, width)
    if any(shares):
        assert sum(taken) == width
        shown = sum(1 for share in shares if share > 0)
        assert width < shown or all(columns > 0 for share, columns in zip(shares, taken, strict=True) if share > 0)
    assert all(columns == 0 for share, columns in zip(shares, taken, strict=True) if share == 0)
