"""Lines of an older text in a newer one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.app.editor.line_costs import map_line

TEXTS = st.lists(st.sampled_from(["a", "b", "  a", "", "x = 1"]), max_size=12).map("\n".join)


@pytest.mark.parametrize(
    ("now", "line", "found"),
    [
        ("a\nb\nc", 2, (2, True)),
        ("new\na\nb\nc", 2, (3, True)),
        ("a\nchanged\nc", 2, (2, False)),
        ("new\na\nchanged\nc", 2, (3, False)),
        ("a\nc", 2, (2, False)),
        ("c", 2, (1, False)),
        ("", 3, (1, False)),
        ("a\r\n  b\r\nc", 2, (2, True)),
    ],
)
def test_a_line_is_found_by_its_text_and_else_by_the_lines_around_it(
    now: str, line: int, found: tuple[int, bool]
) -> None:
    assert map_line("a\nb\nc", now, line) == found


@given(TEXTS, TEXTS, st.integers(1, 14))
def test_it_is_always_a_line_of_the_newer_text_and_the_same_one_where_it_is_there(
    then: str, now: str, line: int
) -> None:
    old, new = then.split("\n"), now.split("\n")
    found, is_there = map_line(then, now, line)
    assert 1 <= found <= len(new)
    if is_there:
        assert new[found - 1].strip() == old[line - 1].strip()
