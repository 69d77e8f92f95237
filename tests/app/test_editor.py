"""The editor: typing, bursts of keys, and edits of lines."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.editor import python_text
from gpututor.app.editor.editor import Editor
from gpututor.app.editor.python_text import python_spans
from gpututor.app.main.screen import MainScreen
from gpututor.app.widgets.results import CheckRow
from tests.support.apps import DEFAULT_START, AppEnv, burst, edit, main_screen, run_checks, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import TRIED_SIZES

LINES = st.lists(st.text(st.sampled_from("ab #'\"\\:()\n\t é"), max_size=12).map(lambda s: s.replace("\n", "")))


def test_texts_are_dedented_colored_and_freed_of_leading_tabs() -> None:
    assert python_text.dedented(["      x", "    x", "  y", "z", ""]) == ["    x", "x", "y", "z", ""]
    pasted = "\tif x:\r\n \t\ty\tz\n\n\t"
    assert python_text.without_leading_tabs(pasted) == "    if x:\r\n         y\tz\n\n    "
    spans = python_spans(['x = """one', "two", 'three"""', "def f(): return 1"])
    assert [kinds[-1][2] for kinds in spans] == ["string", "string", "string", "number"]
    assert spans[3][0] == (0, 3, "keyword")


@given(LINES)
def test_commenting_twice_brings_the_code_back(lines: list[str]) -> None:
    if any(line.strip().startswith("#") or line.strip() == "" != line for line in lines):
        return
    assert python_text.comment_toggled(python_text.comment_toggled(lines)) == lines


@given(LINES)
def test_colors_stay_within_their_lines(lines: list[str]) -> None:
    lines = lines or [""]
    spans = python_spans(lines)
    assert len(spans) == len(lines)
    for line, colored in zip(lines, spans, strict=True):
        assert all(0 <= start < end <= len(line) for start, end, _ in colored)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ((*"if x:", "enter", *"y", "enter", "shift+tab", *"z", "enter", "tab", *"w"), "if x:\n    y\nz\n    w"),
        (
            (*"if x:", "enter", *"y", "enter", *"else:", "enter", *"z", "enter", *"d: int"),
            "if x:\n    y\nelse:\n    z\n    d: int",
        ),
        ((*"if x:", "enter", "enter", "backspace", *"y"), "if x:\n    \ny"),
        ((*"if x:", "enter", "enter", "backspace", *"y", *["backspace"] * 3), "if x:\n"),
        ((*"x=f(", "enter", *"a,", "enter", *")", "enter", *"y"), "x=f(\n    a,\n)\ny"),
        ((*"f()", "left", "enter", *"a"), "f(\n    a\n)"),
    ],
)
async def test_typing_indents_and_dedents(pilot: Pilot[None], keys: tuple[str, ...], text: str) -> None:
    editor = await edit(pilot, "")
    await pilot.press(*keys)
    assert editor.text == text


@pytest.mark.parametrize(
    ("before", "column"),
    [("        ", 4), ("      ", 4), ("    ", 0), (" ", 0), ("", 0), ("    x", 4), ("   x    ", 7)],
)
def test_backspace_takes_a_whole_step_of_the_indent_and_one_character_elsewhere(before: str, column: int) -> None:
    assert python_text.column_before(before) == column


@pytest.mark.parametrize(
    ("above", "line", "wanted"),
    [
        (["if x:", "    y"], "    else:", "else:"),
        (["if x:", "    y", ""], "    elif x[1:2]:", "elif x[1:2]:"),
        (["if x:", "    y"], "    elif x[1:", "    elif x[1:"),
        (["if x:", "    y"], "    elif x == ':", "    elif x == ':"),
        (["def f():", "    try:", "        y"], "        except ValueError:", "    except ValueError:"),
        (["try:", "    if x:", "        y"], "    finally:", "finally:"),
        (["async for x in y:", "    pass", "    # done"], "    else:", "else:"),
        (["def f():", "    y"], "    else:", "    else:"),
        (["while x:", "    if y:", "        z"], "    else:", "    else:"),
        (["if x:", "    y"], "else:", "else:"),
        (["if x:"], "    else:", "    else:"),
        (["if x:", "    y"], "    elsewhere:", "    elsewhere:"),
        (["if x:", "    y"], "    finally:", "    finally:"),
        ([], "    else:", "    else:"),
    ],
)
def test_a_clause_is_dedented_only_where_it_makes_sense(above: list[str], line: str, wanted: str) -> None:
    assert python_text.clause_dedented(above, line) == wanted


async def test_pasted_tabs_become_spaces_and_no_line_stays_hidden_sideways(pilot: Pilot[None]) -> None:
    editor = await edit(pilot, "")
    pilot.app.post_message(events.Paste("if x:\n\ty\n"))
    await until_shown(pilot, "Each tab at the start of a line became four spaces.")
    assert editor.text == "if x:\n    y\n"
    pilot.app.copy_to_clipboard("\tz")
    await pilot.press("ctrl+v")
    assert editor.text == "if x:\n    y\n    z"
    pilot.app.post_message(events.Paste("!"))
    await until_shown(pilot, "    z!")
    assert editor.text == "if x:\n    y\n    z!"
    pilot.app.copy_to_clipboard("?")
    await pilot.press("ctrl+v")
    await until_shown(pilot, "    z!?")
    await pilot.pause()
    assert editor.text == "if x:\n    y\n    z!?", "pasted once"
    editor = await edit(pilot, "    " + "x" * 200)
    await pilot.press("end")
    await until(pilot, lambda: editor.scroll_offset.x > 0, "to scroll sideways")
    await pilot.press("home")
    await until(pilot, lambda: editor.scroll_offset.x == 0, "to scroll back")
    assert editor.cursor_location == (0, 4)
    await pilot.press("end")
    await until(pilot, lambda: editor.scroll_offset.x > 0, "to scroll sideways")
    editor.replace_all("def f():\n" + "y" * 200)
    await until(pilot, lambda: editor.scroll_offset.x == 0, "to show the whole line")


async def test_keys_indent_comment_and_go_by_words(pilot: Pilot[None]) -> None:
    editor = await edit(pilot, "a\nb\nc\n")
    await pilot.press("shift+down", "shift+down", "tab")
    assert editor.text == "    a\n    b\nc\n"
    await pilot.press("shift+tab")
    assert editor.text == "a\nb\nc\n"
    editor = await edit(pilot, "def f():\n    return 1\n")
    await pilot.press("down", "ctrl+underscore")
    assert editor.text == "def f():\n    # return 1\n"
    await pilot.press("f11")
    assert editor.text == "def f():\n    return 1\n"
    await pilot.press("ctrl+z")
    assert editor.text == "def f():\n    # return 1\n"
    # Some terminals name these keys and send their letters too; `test_escape_key.py` covers the others.
    editor = await edit(pilot, "one two three\n")
    for key, column in (("alt+f", 3), ("alt+f", 7), ("alt+b", 4), ("ctrl+right", 7), ("ctrl+left", 4)):
        pilot.app.post_message(events.Key(key, key[-1] if key.startswith("alt") else None))
        await until(pilot, partial(at_column, editor, column), f"for {key}")
    assert editor.text == "one two three\n"
    assert editor.has_focus


async def test_letters_are_text_in_the_editor_and_commands_outside(pilot: Pilot[None], screen: MainScreen) -> None:
    await pilot.press("e", *"nhlrxq?")
    assert screen.editor_text.startswith("nhlrxq?def")
    assert screen.exercise.label == "1.1"
    await pilot.press("escape", "n")
    assert screen.exercise.label == "1.2"


async def test_python_is_colored_and_the_whole_text_a_key_away(pilot: Pilot[None], env: AppEnv) -> None:
    editor = main_screen(pilot).panes.editor
    keyword = editor.get_component_rich_style("code--keyword", partial=True).color
    line = editor.get_line(0)
    assert line.plain == "def twice(number):"
    assert any(span.start == 0 and span.end == 3 and span.style.color == keyword for span in line.spans)  # type: ignore[union-attr]
    await pilot.press("e", "ctrl+end", "x", "ctrl+home", "y")
    assert editor.text == f"y{env.course.exercises[0].starter}x"
    await pilot.press("ctrl+shift+end")
    assert editor.selected_text == editor.text[1:]
    await pilot.press("alt+a", "z")
    assert editor.text == "z"
    await pilot.press("ctrl+z")
    assert editor.text != "z"


def at_column(editor: Editor, column: int) -> bool:
    return editor.cursor_location == (0, column)


KEYS = st.lists(st.sampled_from([*"abcxyz", "backspace", "delete", "left", "right", "home", "end"]), max_size=60)


def typed(keys: list[str]) -> str:
    """Return the text of a line after these keys."""
    before, after = "", ""
    for key in keys:
        match key:
            case "backspace":
                before = before[:-1]
            case "delete":
                after = after[1:]
            case "left":
                before, after = before[:-1], before[-1:] + after
            case "right":
                before, after = before + after[:1], after[1:]
            case "home":
                before, after = "", before + after
            case "end":
                before, after = before + after, ""
            case letter:
                before += letter
    return before + after


class Alone(App[None]):
    """A screen with an editor only."""

    def compose(self) -> ComposeResult:
        yield Editor(id="editor")


async def type_alone(keys: list[str]) -> str:
    app = Alone()
    async with app.run_test() as pilot:
        editor = app.query_one(Editor)
        editor.focus()
        await pilot.pause()
        burst(app, *keys)
        await pilot.pause()
        return editor.text


@settings(max_examples=30, deadline=None, derandomize=True)
@given(KEYS)
def test_keys_that_arrive_together_act_in_their_order(keys: list[str]) -> None:
    assert asyncio.run(type_alone(keys)) == typed(keys)


TANGLED = (*"abcd", "backspace", *"efgh", "left", *"X", "home", *"Y", "end", *"Z", "backspace", "backspace", *"W")


@pytest.mark.parametrize("run_key", ["ctrl+s", "f5"])
async def test_a_run_key_right_behind_text_grades_the_whole_text(pilot: Pilot[None], env: AppEnv, run_key: str) -> None:
    await edit(pilot, "")
    burst(pilot.app, *TANGLED, run_key)
    await until(pilot, lambda: len(env.client.requests) == 1, "for the run")
    assert env.client.requests[0].submission == "YabcefgXW"
    assert env.file().read_text() == "YabcefgXW"


async def test_leaving_editor_or_program_right_behind_text_keeps_the_text_alone(env: AppEnv) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("e")
        burst(pilot.app, *"x=1", "f3", "n")
        await until(pilot, lambda: screen.exercise.label == "1.2", "for the next exercise")
        assert screen.panes.current is Pane.TASK
        await pilot.press("e")
        burst(pilot.app, *"x=1", "left", *"2", "ctrl+q")
        await until(pilot, lambda: not pilot.app.is_running or "x=21" in env.file(1).read_text(), "for the file")
    assert env.file().read_text().startswith("x=1" + DEFAULT_START)
    assert env.file(1).read_text().startswith("x=21" + DEFAULT_START)


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_letters_right_behind_the_key_that_goes_to_the_editor_are_text(pilot: Pilot[None], env: AppEnv) -> None:
    burst(pilot.app, "f4", *"q=1")
    await until(pilot, lambda: env.file().read_text().startswith("q=1" + DEFAULT_START), "for the text")
    assert pilot.app.is_running


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_letters_after_next_are_commands_and_not_text(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    await run_checks(pilot)
    await until(pilot, lambda: isinstance(pilot.app.focused, CheckRow), "for the focus")
    before = env.file(1).read_text()
    focused: list[object] = []
    screen.watch(screen, "focused", lambda widget: focused.append(widget), init=False)
    burst(pilot.app, "n", "t", "t", "t")
    await until(pilot, lambda: screen.exercise.key == env.course.exercises[1].key, "for the next exercise")
    await until(pilot, lambda: pilot.app.focused is screen.panes.reader, "for the focus")
    assert screen.panes.editor not in focused
    assert screen.panes.editor.text == before
