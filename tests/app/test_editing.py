"""The editor: indentation, comments, colours, the marked line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.app.widgets import indentation
from gpututor.app.widgets.colours import python_spans
from tests.app.conftest import Desk, main_screen

LINES = st.lists(st.text(st.sampled_from("ab #'\"\\:()\n\t é"), max_size=12).map(lambda s: s.replace("\n", "")))


@pytest.mark.parametrize(
    ("before", "indent"),
    [
        ("def f():", 4),
        ("    if x:  # why", 8),
        ("    return x", 0),
        ("    x = 1", 4),
        ("x = torch.zeros(", 4),
        ("", 0),
        ("    # a comment:", 4),
    ],
)
def test_a_new_line_is_indented_as_python_needs_it(before: str, indent: int) -> None:
    assert indentation.after_line(before) == " " * indent


def test_dedenting_never_eats_code() -> None:
    assert indentation.dedented(["      x", "  y", "z", ""]) == ["  x", "y", "z", ""]


@given(LINES)
def test_commenting_twice_brings_the_code_back(lines: list[str]) -> None:
    if any(line.strip().startswith("#") or line.strip() == "" != line for line in lines):
        return
    assert indentation.comment_toggled(indentation.comment_toggled(lines)) == lines


@given(LINES)
def test_colours_stay_within_their_lines(lines: list[str]) -> None:
    lines = lines or [""]
    spans = python_spans(lines)
    assert len(spans) == len(lines)
    for line, coloured in zip(lines, spans, strict=True):
        assert all(0 <= start < end <= len(line) for start, end, _ in coloured)


def test_a_string_over_several_lines_is_coloured_on_each_of_them() -> None:
    spans = python_spans(['x = """one', "two", 'three"""', "def f(): return 1"])
    assert [kinds[-1][2] for kinds in spans] == ["string", "string", "string", "number"]
    assert spans[3][0] == (0, 3, "keyword")


async def test_typing_python_indents_itself(desk: Desk) -> None:
    async with desk.start() as pilot:
        editor = main_screen(pilot).panes.editor
        await pilot.press("e")
        editor.show("")
        await pilot.press(*"if x:", "enter", *"y", "enter", "shift+tab", *"z", "enter", "tab", *"w")
        assert editor.text == "if x:\n    y\nz\n    w"


async def test_tab_and_shift_tab_move_the_selected_lines(desk: Desk) -> None:
    async with desk.start() as pilot:
        editor = main_screen(pilot).panes.editor
        await pilot.press("e")
        editor.show("a\nb\nc\n")
        await pilot.press("shift+down", "shift+down", "tab")
        assert editor.text == "    a\n    b\nc\n"
        await pilot.press("shift+tab")
        assert editor.text == "a\nb\nc\n"


async def test_the_comment_key_works_on_the_line_and_on_the_selection(desk: Desk) -> None:
    async with desk.start() as pilot:
        editor = main_screen(pilot).panes.editor
        await pilot.press("e")
        editor.show("def f():\n    return 1\n")
        await pilot.press("down", "ctrl+underscore")
        assert editor.text == "def f():\n    # return 1\n"
        await pilot.press("f11")
        assert editor.text == "def f():\n    return 1\n"
        await pilot.press("ctrl+z")
        assert editor.text == "def f():\n    # return 1\n"


async def test_letters_are_text_in_the_editor_and_commands_outside(desk: Desk) -> None:
    async with desk.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("e", *"nhlrxq?")
        assert screen.editor_text.startswith("nhlrxq?def")
        assert screen.exercise.label == "1.1"
        await pilot.press("escape", "n")
        assert screen.exercise.label == "1.2"


async def test_python_is_coloured(desk: Desk) -> None:
    async with desk.start() as pilot:
        editor = main_screen(pilot).panes.editor
        keyword = editor.get_component_rich_style("code--keyword", partial=True).color
        line = editor.get_line(0)
        assert line.plain == "def twice(number):"
        assert any(span.start == 0 and span.end == 3 and span.style.color == keyword for span in line.spans)  # type: ignore[union-attr]
