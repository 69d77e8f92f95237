"""Characters without a look of their own: a sign in one cell each, words at the cursor, and never changed by saving."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpututor.app.editor.rendering import CodeDocument, sign_words, with_signs
from gpututor.text import lines_of
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.screens import TRIED_SIZES, assert_harmless, screen_text

UNSEEN = "\x00\x07\x0c\x1b\x7f\x80\x85\x9b\x9f\xa0\xad\u200b\u200d\u2028\u202a\u202e\u2060\u2066\u2069\ufeff"
SIGNS = "␀␇␌␛␡␦␦␦␦␣␦␦␦␦␦␦␦␦␦␦"
LINE = f"x = '{UNSEEN}'  # end"
ANY_TEXT = st.text()


def test_signs_are_one_cell_each() -> None:
    assert with_signs(UNSEEN) == SIGNS
    assert [cell_len(sign) for sign in SIGNS] == [1] * len(SIGNS)


@given(st.text(st.characters(exclude_categories=())))
def test_each_character_is_drawn_as_one_printable_character(line: str) -> None:
    shown = with_signs(line)
    assert len(shown) == len(line)
    assert not {unicodedata.category(letter) for letter in shown if letter != "\t"} & {"Cc", "Cs", "Zl", "Zp"}
    assert with_signs(shown) == shown
    for letter, sign in zip(line, shown, strict=True):
        assert (letter == sign) is (sign_words(letter) == "")


@pytest.mark.parametrize("letter", "aé中 \t\u3000👩€─😀")
def test_what_has_a_look_keeps_it(letter: str) -> None:
    assert with_signs(letter) == letter


def test_a_sign_says_what_it_stands_for() -> None:
    assert sign_words("\u202e") == "␦ stands for U+202E, right-to-left override."
    assert sign_words("\x1b") == "␛ stands for U+001B, a control character."


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
