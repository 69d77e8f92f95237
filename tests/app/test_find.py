"""Find and replace in the learner's file."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.pilot import Pilot

from gpututor.app.editor.editor import Editor
from gpututor.app.editor.find import BadPattern, FindBar, Needle, find_all, replace_all, replacement
from tests.support.apps import AppEnv, burst, edit, main_screen, until, until_shown
from tests.support.screens import TRIED_SIZES, assert_golden, screen_text

TEXT = "one two\nTwo one\n  one\n"


def starts(needle: Needle, text: str = TEXT) -> list[tuple[int, int]]:
    return [match[0] for match in find_all(needle, text)]


@pytest.mark.parametrize(
    ("needle", "text", "wanted"),
    [
        (Needle("two"), TEXT, [(0, 4), (1, 0)]),
        (Needle("Two"), TEXT, [(1, 0)]),
        (Needle(r"\Sne", regex=True), "One", [(0, 0)]),
        (Needle("on"), "on one on_ (on)", [(0, 0), (0, 3), (0, 7), (0, 12)]),
        (Needle("on", whole_word=True), "on one on_ (on)", [(0, 0), (0, 12)]),
        (Needle("a.(b"), "axb a.(b", [(0, 4)]),
    ],
)
def test_options_and_capitals_decide_what_matches(needle: Needle, text: str, wanted: list[tuple[int, int]]) -> None:
    assert starts(needle, text) == wanted


def test_an_expression_finds_lines_and_groups() -> None:
    text = "def f(x):\n    return x\n"
    assert starts(Needle(r"^\s+return (\w)$", regex=True), text) == [(1, 0)]
    match = find_all(Needle(r"(\w)\((\w)\)", regex=True), text)[0]
    assert replacement(Needle(r"(\w)\((\w)\)", regex=True), text, match, r"\2(\1)") == "x(f)"


@pytest.mark.parametrize("text", ["(", "[a", "*", "(?P<1>a)", "a{2,1}", "\\", "(?z)"])
def test_a_bad_expression_is_said(text: str) -> None:
    with pytest.raises(BadPattern, match="Not a regular expression"):
        find_all(Needle(text, regex=True), TEXT)


def test_a_bad_replacement_and_an_endless_search_are_refused() -> None:
    with pytest.raises(BadPattern, match="Not a replacement"):
        replace_all(Needle("(o)ne", regex=True), TEXT, r"\2")
    with pytest.raises(BadPattern, match="too long"):
        find_all(Needle(r"(a+)+$", regex=True), "a" * 60 + "!")
    assert starts(Needle("one")) == [(0, 0), (1, 4), (2, 2)]


@given(st.text(), st.text(st.sampled_from("ab \n(.*")), st.booleans(), st.booleans())
def test_searching_never_breaks_and_every_match_lies_in_the_text(
    needle: str, text: str, regex: bool, whole_word: bool
) -> None:
    lines = text.split("\n")
    try:
        with mock.patch("gpututor.app.editor.find.MOST_S", 60):  # garbage collection counts, too
            matches = find_all(Needle(needle, regex, whole_word), text)
    except BadPattern:
        return
    assert matches == sorted(matches)
    for (first, start), (last, end) in matches:
        assert 0 <= first <= last < len(lines)
        assert 0 <= start <= len(lines[first])
        assert 0 <= end <= len(lines[last])


@given(st.text("abX"), st.text("abX", min_size=1, max_size=2), st.text("abX\\"))
def test_replacing_all_does_what_python_does(text: str, needle: str, by: str) -> None:
    wanted = text.replace(needle, by)
    if needle == needle.lower() and needle.lower() != needle.upper() and "X" in text:
        return
    assert replace_all(Needle(needle), text, by)[0] == wanted


def editor_of(pilot: Pilot[None]) -> Editor:
    return main_screen(pilot).panes.editor


def bar_of(pilot: Pilot[None]) -> FindBar:
    return main_screen(pilot).query_one(FindBar)


async def find(pilot: Pilot[None], text: str, *keys: str) -> Editor:
    """Put a text into the editor, open the find bar and press the keys in it."""
    editor = await edit(pilot, text)
    await pilot.press("ctrl+f")
    await until(
        pilot, lambda: bool(main_screen(pilot).query(FindBar)) and bar_of(pilot).has_focus_within, "for the bar"
    )
    await pilot.press(*keys)
    return editor


async def test_the_find_bar_counts_replaces_and_takes_keys_in_order(pilot: Pilot[None]) -> None:
    editor = await find(pilot, TEXT, *"two", "enter")
    await until_shown(pilot, "2 of 2")
    await pilot.press("escape")
    await until(pilot, lambda: editor.has_focus, "for the editor")
    assert not bar_of(pilot).is_open
    await pilot.press("x")
    assert editor.text == "one two\nxTwo one\n  one\n"
    await pilot.press("escape")
    await until(pilot, lambda: not editor.has_focus, "to leave the editor")
    editor = await find(pilot, "one two\none\n", *"one", "tab", *"oneone", "enter")
    await until(pilot, lambda: editor.text == "oneone two\none\n", "for the first")
    await pilot.press("enter")
    await until(pilot, lambda: editor.text == "oneone two\noneone\n", "for the second, not the first again")
    await pilot.press("escape", "ctrl+z")
    await until(pilot, lambda: editor.text == "oneone two\none\n", "to undo one")
    editor = await find(pilot, TEXT, *"one", "tab", *"1", "alt+l")
    await until_shown(pilot, "3 replaced")
    assert editor.text == "1 two\nTwo 1\n  1\n"
    await pilot.press("escape", "ctrl+z")
    await until(pilot, lambda: editor.text == TEXT, "to undo")
    editor = await find(pilot, TEXT, *"on")
    await until_shown(pilot, "1 of 3")
    assert editor.cursor_location == (0, 0)
    await pilot.press("e", "enter")
    await until_shown(pilot, "2 of 3")
    assert editor.cursor_location == (1, 4)
    await pilot.press("up", "up")
    await until_shown(pilot, "3 of 3")
    assert "Continued from the end." in screen_text(pilot.app)
    await pilot.press("down")
    await until_shown(pilot, "Continued from the top.")
    await pilot.press("down", "shift+enter", "down", "down")
    await until_shown(pilot, "3 of 3")
    assert "On from" not in screen_text(pilot.app)
    assert editor.cursor_location == (2, 2)
    await pilot.press("x")
    await until_shown(pilot, "none")
    await pilot.press("escape")
    await edit(pilot, "alpha\nbeta alpha\n")
    await pilot.press(*["shift+right"] * 5, "ctrl+f")
    await until_shown(pilot, "1 of 2")
    await pilot.press("escape", "down", "ctrl+f")
    await until_shown(pilot, "2 of 2")
    await pilot.press("escape")
    editor = await find(pilot, "on one\n", *"one")
    for key in ("tab", *"two", "tab", "tab", "enter"):
        pilot.app.simulate_key(key)
    await until(pilot, lambda: editor.text == "on two\n", "for the replacement of all")
    await pilot.press("escape")
    editor = await edit(pilot, TEXT)
    burst(pilot.app, *"x", "ctrl+f", *"two")
    await until_shown(pilot, "1 of 2")
    assert editor.text == f"x{TEXT}"


@pytest.mark.long
async def test_an_expression_is_an_option_and_a_bad_one_is_said(pilot: Pilot[None]) -> None:
    editor = await find(pilot, TEXT, "alt+r", *"^(t", "ctrl+e")
    await until_shown(pilot, "not valid")
    await until_shown(pilot, "Not a regular expression: missing )")
    await pilot.press(*"w)", "tab", *"\\1\\1", "alt+l")
    await until_shown(pilot, "1 replaced")
    assert editor.text == "one two\nTwTwo one\n  one\n"
    await pilot.press(*"\\7")
    await pilot.press("shift+tab", "ctrl+u", *"(o)n", "alt+l")
    await until_shown(pilot, "Not a replacement: invalid group reference 7")


async def test_options_and_buttons_are_reached_with_alt_or_tab(pilot: Pilot[None]) -> None:
    editor = await find(pilot, "on one\n", *"on")
    for shown in ("1 of 1", "1 of 2"):
        pilot.app.post_message(events.Key("alt+w", "w"))  # as terminals send it: its letter is no text
        await until_shown(pilot, shown)
        assert ("● word" in screen_text(pilot.app)) is (shown == "1 of 1")
    await pilot.press("tab", *"x", *["tab"] * 4, "space")
    await until_shown(pilot, "1 of 1")
    assert "● word" in screen_text(pilot.app)
    await pilot.press(*["shift+tab"] * 3, "enter")
    await until(pilot, lambda: editor.text == "x one\n", "for the replacement")


@pytest.mark.long
async def test_edits_while_the_bar_is_open_are_found_too(pilot: Pilot[None]) -> None:
    await find(pilot, TEXT, *"one")
    await until_shown(pilot, "1 of 3")
    await pilot.press("f4")
    await until(pilot, lambda: editor_of(pilot).has_focus, "for the editor")
    await pilot.press(*"one ")
    await until_shown(pilot, "4 found")


async def test_from_another_pane_the_key_leads_to_the_code_and_back(pilot: Pilot[None]) -> None:
    await pilot.press("3", "ctrl+f")
    await until(pilot, lambda: bool(main_screen(pilot).query(FindBar)) and bar_of(pilot).has_focus_within, "it")
    await pilot.press(*"twice")
    await until_shown(pilot, "1 of 1")
    await pilot.press("f3", "n")
    await until(pilot, lambda: main_screen(pilot).exercise.label == "1.2", "for the next exercise")


@pytest.mark.long
async def test_the_current_match_differs_from_the_others_in_every_theme(pilot: Pilot[None]) -> None:
    editor = await find(pilot, TEXT, *"one")
    for theme in sorted(pilot.app.available_themes):
        pilot.app.theme = theme
        await pilot.pause()
        other, current = (
            editor.get_component_rich_style(f"code--{part}", partial=True) for part in ("match", "current-match")
        )
        assert current.reverse or current.bgcolor != other.bgcolor, theme


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_the_find_bar_fits(pilot: Pilot[None]) -> None:
    await find(pilot, TEXT, *"one", "enter", "tab", *"another")
    await until_shown(pilot, "2 of 3")
    await until(pilot, lambda: main_screen(pilot).files.is_saved, "for the text to be saved")
    await assert_golden(pilot, "find")


async def test_the_bar_follows_what_another_program_writes_or_removes(env: AppEnv) -> None:
    env.file().write_text("one = 1\ntwo = 2\n")
    async with env.start() as pilot:
        editor = editor_of(pilot)
        await pilot.press("e", "ctrl+f")
        await until(pilot, lambda: bar_of(pilot).has_focus_within, "for the bar")
        await pilot.press(*"two", "tab", "x")
        await until_shown(pilot, "1 of 1")
        env.file().write_text("zero = 0\none = 1\ntwo = 2\n")
        await until(pilot, lambda: editor.text.startswith("zero"), "for the reload")
        await pilot.press("enter", "enter")
        await until(pilot, lambda: "two" not in editor.text, "for the replacement")
        assert editor.text == "zero = 0\none = 1\nx = 2\n", "searched anew before it is replaced"
        await pilot.press("shift+tab", "ctrl+u", *"one")
        await until_shown(pilot, "1 of 1")
        await until(pilot, lambda: main_screen(pilot).files.is_saved, "for the autosave")
        env.file().write_text("")
        await until(pilot, lambda: editor.text == "", "for the reload")
        await pilot.press("tab", "enter", "escape")
        await until(pilot, lambda: editor.has_focus, "for the editor")
        assert editor.text == ""
