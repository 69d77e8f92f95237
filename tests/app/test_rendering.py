"""Drawn lines of code: cut lines, brackets, invisible characters, moving lines."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.pilot import Pilot

from gpututor.app.editor import python_text
from gpututor.app.editor.editor import Editor
from gpututor.app.editor.python_text import find_brackets, python_spans
from gpututor.app.editor.rendering import CodeDocument, sign_words, with_signs
from gpututor.app.main.screen import MainScreen
from gpututor.grading.recording import LineCost
from gpututor.text import lines_of
from tests.support.apps import AppEnv, burst, edit, main_screen, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import TRIED_SIZES, assert_golden, assert_harmless, screen_lines, screen_text

LINES = st.lists(st.text(st.sampled_from("ab()[]{}:#'\" ,\\"), max_size=10), min_size=1, max_size=6)


# Edges


@pytest.mark.parametrize("size", mostly_long([(80, 24), (100, 30)], [(80, 24)]), ids=str)
async def test_a_line_that_goes_on_beyond_an_edge_is_marked_there(env: AppEnv, size: tuple[int, int]) -> None:
    text = "short = 1\nlong = '" + "0123456789" * 12 + "'\n\n" + "x = 1  # " + "ü" * 90 + "\n"
    async with env.start(size) as pilot:
        editor = await edit(pilot, text)
        await until(pilot, lambda: main_screen(pilot).files.is_saved, "for the text to be saved")
        await assert_golden(pilot, "long_lines")
        await pilot.press("down", "end")
        await until(pilot, lambda: editor.scroll_offset.x > 0, "to scroll sideways")
        await assert_golden(pilot, "long_lines_scrolled")


async def test_marks_of_cut_lines_hide_neither_letters_nor_the_cursor(pilot: Pilot[None]) -> None:
    editor = await edit(pilot, "a\n")
    room = editor.scrollable_content_region.width - editor.gutter_width
    editor.show("x" * room + "\n" + "y" * (room + 1))
    await pilot.pause()
    lines = screen_lines(pilot.app)
    assert not any("›" in line and "x" in line for line in lines)
    assert any("›" in line and "y" in line for line in lines)
    editor = await edit(pilot, "abc" * 100)
    for _ in range(200):
        editor.action_cursor_right()
    await pilot.pause()
    place = editor.cursor_screen_offset
    assert screen_lines(pilot.app)[place.y][place.x] == "abc"[editor.cursor_location[1] % 3]


async def test_new_lines_and_undo_bring_the_cursor_into_sight(pilot: Pilot[None]) -> None:
    editor = await edit(pilot, "    x = " + "1 + " * 30 + "1")
    await pilot.press("end")
    await until(pilot, lambda: editor.scroll_offset.x > 0, "to scroll sideways")
    await pilot.press("enter", "y")
    await until(pilot, lambda: editor.scroll_offset.x == 0, "to scroll back")
    await pilot.press("up", "end")
    await until(pilot, lambda: editor.scroll_offset.x > 0, "to scroll sideways")
    await pilot.press("home", *["right"] * 3)
    await until(pilot, lambda: editor.scroll_offset.x == 0, "to scroll back")
    # Textual looks for the cursor after the scroll bar is gone, but before the cursor has moved.
    editor = await edit(pilot, "a = 1\n")
    await pilot.press("end")
    editor.insert("\n" * 200)
    await until(pilot, lambda: editor.show_vertical_scrollbar, "for the scroll bar")
    await pilot.press("ctrl+z")
    await until(pilot, lambda: not editor.show_vertical_scrollbar, "for it to go")
    assert (editor.text, editor.cursor_location) == ("a = 1\n", (0, 5))


# Wrapping


WRAPPED = "x = 1\n    long = '" + "word " * 37 + "'  # \x1b end\n\tlast = f(1)\n"


async def wrapping(pilot: Pilot[None], text: str) -> Editor:
    screen = main_screen(pilot)
    screen.learner.settings.choose("soft_wrap", True)
    screen.apply_settings()
    editor = await edit(pilot, text)
    await until(pilot, lambda: editor.wrapped_document.height > editor.document.line_count, "for the text to wrap")
    return editor


async def test_wrapped_lines_are_whole_and_keep_cursor_marks_and_costs(pilot: Pilot[None]) -> None:
    editor = await wrapping(pilot, WRAPPED)
    assert screen_text(pilot.app).count("word") == 37
    assert "›" not in screen_text(pilot.app)
    assert editor.scroll_offset.x == 0
    await pilot.press("down")
    for letter in with_signs(editor.document[1]):
        place = editor.cursor_screen_offset
        assert screen_lines(pilot.app)[place.y].ljust(80)[place.x] == letter
        editor.action_cursor_right()
    editor.move_cursor((1, 0))
    await pilot.press("home")
    assert editor.cursor_location == (1, 4), "the indent"
    await pilot.press("down")
    assert editor.cursor_location[0] == 1, "the next part of the same line"
    await pilot.press("down", "down")
    assert editor.cursor_location[0] == 2
    await pilot.press("up")
    assert editor.cursor_location[0] == 1
    start, end = (1, 20), (1, 150)
    editor.show_matches([(start, end)], None)
    color = editor._part("match").bgcolor
    drawn = [editor.render_line(y) for y in range(editor.wrapped_document.height)]
    parts = [
        "".join(segment.text for segment in strip if segment.style and segment.style.bgcolor == color)
        for strip in drawn
    ]
    assert "".join(parts) == editor.document[1][20:150]
    assert sum(map(bool, parts)) == 3
    editor.show_matches([], None)
    editor.show_costs({2: LineCost(2, 3, 4000, 1, 2000, 16, 7, 900, 0)})
    await until_shown(pilot, "‖7")
    row = next(line for line in screen_lines(pilot.app) if "‖7" in line)
    assert "␛ end" in row, "in the last part, which has space"
    assert "›" not in screen_text(pilot.app)
    editor = await wrapping(pilot, ("#" + " word" * 60 + "\n") * 30 + "target = 1\n")
    editor.go_to_line(31, marked=True)
    await until_shown(pilot, "target = 1")
    editor.move_cursor((0, 0))
    await until(pilot, lambda: editor.scroll_offset.y == 0, "for the top")
    editor.bring_to((30, 0))
    await until_shown(pilot, "target = 1")
    screen = main_screen(pilot)
    screen.learner.settings.choose("soft_wrap", False)
    screen.apply_settings()
    await until(pilot, lambda: editor.wrapped_document.height == 32, "for whole lines again")
    await until_shown(pilot, "target = 1")


# Brackets


def brackets(text: str) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the positions of unclosed brackets, and of brackets that were never opened."""
    lines = text.split("\n")
    pairing = find_brackets(lines, python_spans(lines))
    return pairing.unclosed, pairing.unopened


def test_brackets_have_partners_of_their_kind_within_a_statement() -> None:
    assert brackets("f('(', \"]\")  # )") == (set(), set()), "strings and comments have no brackets"
    assert brackets("f(a[1)") == ({(0, 3)}, set())
    assert brackets("f(a]1)") == (set(), {(0, 3)})
    assert brackets("x = f(1\nreturn (2)") == ({(0, 5)}, set())
    assert brackets("x = [y\n     for y in z\n     if y]") == (set(), set())


@given(LINES)
def test_every_bracket_has_a_partner_or_has_none(lines: list[str]) -> None:
    pairing = find_brackets(lines, python_spans(lines))
    assert all(pairing.partners[partner] == bracket for bracket, partner in pairing.partners.items())
    assert not set(pairing.partners) & (pairing.unclosed | pairing.unopened)
    for row, column in (*pairing.partners, *pairing.unclosed, *pairing.unopened):
        assert lines[row][column] in "()[]{}"


def styled(editor: Editor, row: int, part: str) -> list[int]:
    """Return the columns of a row at which the highlighting `part` begins."""
    return [start for start, _, kind in editor.marks_of(row) if kind == part]


async def test_brackets_are_marked_with_their_partners_or_without(pilot: Pilot[None]) -> None:
    editor = await edit(pilot, "f(')',\n  x)\n")
    await pilot.press("right")
    assert styled(editor, 0, "bracket") == [1]
    assert styled(editor, 1, "bracket") == [3]
    await pilot.press("down", "end")
    assert editor.cursor_location == (1, 4)
    assert styled(editor, 0, "bracket") == [1]
    await pilot.press("up", "home")
    assert styled(editor, 0, "bracket") == []
    editor = await edit(pilot, "\nreturn a)\n")
    assert styled(editor, 1, "unmatched") == [8]
    await pilot.press(*"f(")
    assert styled(editor, 0, "unmatched") == []
    await pilot.press("down")
    assert styled(editor, 0, "unmatched") == [1]
    editor = await edit(pilot, "y = f(x)")
    await pilot.press("end")
    await until(pilot, lambda: styled(editor, 0, "bracket") == [7, 5], "for the pair")
    background = editor.get_component_rich_style("code--bracket", partial=True).bgcolor
    drawn = {segment.text: segment.style for segment in editor.render_line(0)}
    assert drawn["("] is not None
    assert drawn["("].bgcolor == background


async def test_without_color_brackets_are_underlined(env: AppEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with env.start() as pilot:
        editor = await edit(pilot, "f()")
        assert editor.get_component_rich_style("code--bracket", partial=True).underline
        assert editor.get_component_rich_style("code--unmatched", partial=True).underline


@pytest.mark.parametrize("typed", ["f(x)", "x[f({1: (2)})]", "print('(')", "a = (1,\n     2)\nb", "()[]{}"])
async def test_brackets_come_out_as_they_are_typed(pilot: Pilot[None], typed: str) -> None:
    editor = await edit(pilot, "")
    burst(pilot.app, *("enter" if letter == "\n" else letter for letter in typed))
    await pilot.pause()
    wanted = typed.split("\n")
    assert [line.strip() for line in editor.text.split("\n")] == [line.strip() for line in wanted]


# Indentation after a line


@pytest.mark.parametrize(
    ("above", "before", "indent"),
    [
        ((), "def f():", 4),
        ((), "    if x:  # why", 8),
        ((), "    return x", 0),
        ((), "    x = 1", 4),
        ((), "x = torch.zeros(", 4),
        ((), "", 0),
        ((), "    # a comment:", 4),
        ((), "x = f(", 4),
        ((), "x = f(a,", 6),
        (("x = f(",), "    a,", 4),
        (("x = f(a,",), "      b)", 0),
        (("    x = f(", "        a,"), "    )", 4),
        (("def f(",), "    a):", 4),
        (("    def f(", "        a,"), "    ):", 8),
        (("    return f(", "        a,"), "    )", 0),
        (("    return [",), "        1]", 0),
        (("x = {", "    'a': ["), "        1,", 8),
        (("x = {", "    'a': [", "        1,"), "    ],", 4),
        ((), "    x = 1 + \\", 8),
        (("    x = 1 + \\",), "        2", 4),
        ((), "    x = '#'", 4),
        ((), "    if x == '#':", 8),
        ((), "    raise ValueError('a, b')", 0),
        ((), "    returned = 1", 4),
        (("    '''",), "    Args:", 4),
        (("f(1", "def g():"), "    pass", 0),
    ],
)
def test_a_new_line_knows_what_is_open_and_where_the_statement_began(
    above: tuple[str, ...], before: str, indent: int
) -> None:
    assert python_text.after_line(before, above) == " " * indent


@given(LINES)
def test_any_line_can_be_opened_below_any_other(lines: list[str]) -> None:
    assert python_text.after_line(lines[-1], lines[:-1]).strip() == ""


# Moving lines


async def test_lines_and_selections_move_up_and_down(pilot: Pilot[None]) -> None:
    editor = await edit(pilot, "a\nbb\nc")
    await pilot.press("alt+down")
    assert (editor.text, editor.cursor_location) == ("bb\na\nc", (1, 0))
    await pilot.press("alt+down", "alt+down")
    assert (editor.text, editor.cursor_location) == ("bb\nc\na", (2, 0))
    await pilot.press("alt+up", "alt+up", "alt+up")
    assert editor.text == "a\nbb\nc"
    await pilot.press("ctrl+z")
    assert editor.text == "bb\na\nc"
    editor = await edit(pilot, "a\nb\nc\n")
    await pilot.press("shift+down", "shift+down", "alt+down")
    assert editor.text == "c\na\nb\n"
    assert editor.selected_text == "a\nb\n"
    await pilot.press("alt+shift+down")
    assert editor.text == "c\na\nb\na\nb\n"
    assert editor.selected_text == "a\nb\n"


@settings(max_examples=200)
@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=6), st.data())
def test_moving_there_and_back_changes_nothing(lines: list[str], data: st.DataObject) -> None:
    editor = Editor()
    editor.load_text("\n".join(lines))
    row = data.draw(st.integers(0, editor.document.line_count - 1))
    before = editor.text
    editor.move_cursor((row, 0))
    editor.action_move_lines_down()
    assert sorted(editor.text.split("\n")) == sorted(before.split("\n"))
    if row < editor.document.line_count - 1:
        editor.action_move_lines_up()
        assert editor.text == before


# Undo


@pytest.mark.long
async def test_undo_after_a_reload_brings_the_learner_s_text_back(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    await pilot.press("e", *"mine = 1", "enter")
    mine = screen.editor_text
    await until(pilot, lambda: env.file().read_text() == mine, "for the file")
    env.file().write_text("theirs = 2\n")
    await until(pilot, lambda: screen.editor_text == "theirs = 2\n", "for the reload")
    await pilot.press("ctrl+z")
    assert screen.editor_text == mine
    await until(pilot, lambda: env.file().read_text() == mine, "for the file to have it again")
    await pilot.press("ctrl+y")
    await until(pilot, lambda: env.file().read_text() == "theirs = 2\n", "for the other text again")


@pytest.mark.long
async def test_undo_after_a_reset_brings_the_learner_s_text_back(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    starter = screen.editor_text
    await pilot.press("e", *"mine", "escape", "x")
    await until_shown(pilot, "Yes, reset")
    await pilot.press("y")
    await until(pilot, lambda: screen.editor_text == starter, "for the starter")
    await pilot.press("e")
    await until(pilot, lambda: screen.panes.editor.has_focus, "for the editor")
    await pilot.press("ctrl+z")
    assert screen.editor_text == f"mine{starter}"
    await until(pilot, lambda: env.file().read_text() == f"mine{starter}", "for the file to have it again")


UNSEEN = "\x00\x07\x0c\x1b\x7f\x80\x85\x9b\x9f\xa0\xad\u200b\u200d\u2028\u202a\u202e\u2060\u2066\u2069\ufeff"
SIGNS = "␀␇␌␛␡␦␦␦␦␣␦␦␦␦␦␦␦␦␦␦"
LINE = f"x = '{UNSEEN}'  # end"
ANY_TEXT = st.text()


def test_signs_are_one_cell_each_and_say_what_they_stand_for() -> None:
    assert with_signs(UNSEEN) == SIGNS
    assert [cell_len(sign) for sign in SIGNS] == [1] * len(SIGNS)
    assert with_signs(visible := "aé中 \t\u3000👩€─😀") == visible
    assert sign_words("\u202e") == "␦ stands for U+202E, right-to-left override."
    assert sign_words("\x1b") == "␛ stands for U+001B, a control character."


@given(st.text(st.characters(exclude_categories=())))
def test_each_character_is_drawn_as_one_printable_character(line: str) -> None:
    shown = with_signs(line)
    assert len(shown) == len(line)
    assert not {unicodedata.category(letter) for letter in shown if letter != "\t"} & {"Cc", "Cs", "Zl", "Zp"}
    assert with_signs(shown) == shown
    for letter, sign in zip(line, shown, strict=True):
        assert (letter == sign) is (sign_words(letter) == "")


@given(ANY_TEXT, ANY_TEXT, st.data())
def test_a_document_holds_what_is_put_in(text: str, more: str, data: st.DataObject) -> None:
    document = CodeDocument(text)
    text = "\n".join(lines_of(text))
    start, end = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
    first, last = (document.get_location_from_index(index) for index in (start, end))
    edit = document.replace_range(first, last, more)
    assert edit.replaced_text == text[start:end]
    more = "\n".join(lines_of(more))
    assert document.text == text[:start] + more + text[end:]
    assert document.get_index_from_location(edit.end_location) == start + len(more)


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_signs_are_drawn_where_their_characters_are(env: AppEnv, size: tuple[int, int]) -> None:
    env.file().write_text(f"{LINE}\ny = 2\n")
    async with env.start(size) as pilot:
        await pilot.press("e", "ctrl+home")
        await until_shown(pilot, f"x = '{SIGNS}' # end")
        assert_harmless(pilot)
        editor = main_screen(pilot).panes.editor
        for column in range(len(LINE)):
            cell = editor.wrapped_document.location_to_offset((0, column))
            assert cell == (column, 0)
            assert editor.wrapped_document.offset_to_location(cell) == (0, column)
            editor.move_cursor((0, column))
            assert editor.cursor_screen_offset.x == editor.content_region.x + editor.gutter_width + column
        editor.move_cursor((0, 5 + UNSEEN.index("\u202e")))
        await until_shown(pilot, "␦ stands for U+202E, right-to-left override.")
        await pilot.press("right", "right", "right", "right", "right", "right")
        await until(pilot, lambda: "stands for" not in screen_text(pilot.app), "for the words to go")


async def test_up_and_down_keep_the_column_among_signs(env: AppEnv) -> None:
    env.file().write_text(f"{'a' * 30}\n{LINE}\n{'b' * 30}\n")
    async with env.start() as pilot:
        await pilot.press("e", "ctrl+home", *["right"] * 12)
        editor = main_screen(pilot).panes.editor
        for row in (1, 2):
            await pilot.press("down")
            assert editor.cursor_location == (row, 12)
        await pilot.press("up", "up")
        assert editor.cursor_location == (0, 12)


async def test_saving_changes_no_character_that_was_not_edited(env: AppEnv) -> None:
    text = f"\x0cimport torch\n{LINE}\n\x0c\ny = '\x1c\x1d\x1e\x0b\u2029'\n"
    env.file().write_bytes(text.encode())
    async with env.start() as pilot:
        await pilot.press("e", "ctrl+end", "m")
        await until(pilot, lambda: env.file().read_bytes().decode() == f"{text}m", "for the autosave")
        assert main_screen(pilot).panes.editor.cursor_location == (4, 1)
        await pilot.press("ctrl+z")
        await until(pilot, lambda: env.file().read_bytes().decode() == text, "for the autosave")
