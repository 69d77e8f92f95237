"""Other people's text cannot control a terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.text import escape_control_chars, lines_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext é ‖ 中", "plain\n\ttext é ‖ 中"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("over\rwritten\x08\x7f\x00", "over\\rwritten\\x08\\x7f\\x00"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("\u202etxt.exe\u2066\u200f", "\\u202etxt.exe\\u2066\\u200f"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\udc80", "\\udc80"),
        ("[/int] [@click=app.quit]", "[/int] [@click=app.quit]"),
    ],
)
def test_characters_that_control_a_terminal_are_escaped(text: str, shown: str) -> None:
    assert escape_control_chars(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_only_control_characters_are_escaped(text: str) -> None:
    shown = escape_control_chars(text)
    assert not {unicodedata.category(letter) for letter in shown if letter not in "\n\t"} & {"Cc", "Cs", "Zl", "Zp"}
    shown.encode()
    assert shown == "".join(escape_control_chars(letter) for letter in text)
    assert escape_control_chars(shown) == shown


@given(st.lists(st.text(alphabet="x \t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1))
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_end_as_in_python(end: str, lines: list[str]) -> None:
    text = end.join(lines)
    read = io.StringIO(text, newline=None).read().split("\n")  # as Python reads source files

    assert lines_of(text) == read == lines
