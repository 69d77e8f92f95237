"""How long lines of a comparison are broken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpututor.app.screens.diff import pieces


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("x = f(first, second)", ["x = f(first, second)"]),
        ("x = f(first, second, third)  # fourth", ["x = f(first, second,", "↪ third)  # fourth"]),
        ("    return torch.nn.relu(x)", ["    return torch.nn", "    ↪ .relu(x)"]),
        ("values=[1.25,2.5,3.75,4.0]", ["values=[1.25,2.5,", "↪ 3.75,4.0]"]),
        ("x" * 30, ["x" * 20, "↪ " + "x" * 10]),
    ],
)
def test_a_long_line_is_broken_where_code_would_be(line: str, rows: list[str]) -> None:
    assert pieces(line, 20) == rows


@given(st.text(" ab.,([=1日", max_size=60), st.integers(6, 40))
def test_pieces_of_a_line_fit_and_nothing_but_blanks_is_lost(line: str, room: int) -> None:
    found = pieces(line, room)
    assert all(cell_len(piece) <= room for piece in found)
    assert re.sub(r"[↪ ]", "", "".join(found)) == line.replace(" ", "")
