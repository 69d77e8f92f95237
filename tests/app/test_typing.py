"""Keys that arrive together, as from a fast typist or a slow line: nothing is lost and nothing changes places."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.editor.editor import Editor
from gpututor.app.main.screen import MainScreen
from gpututor.app.widgets.results import CheckRow
from tests.support.apps import DEFAULT_START, AppEnv, burst, main_screen, run_checks, until
from tests.support.parameters import mostly_long
from tests.support.screens import TRIED_SIZES

KEYS = st.lists(st.sampled_from([*"abcxyz", "backspace", "delete", "left", "right", "home", "end"]), max_size=60)


def typed(keys: list[str]) -> str:
    """What one line holds after these keys."""
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
    """An editor and nothing else."""

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


async def test_letters_and_editing_keys_of_a_burst_act_in_order(pilot: Pilot[None]) -> None:
    editor = main_screen(pilot).panes.editor
    await pilot.press("e")
    editor.show("")
    burst(pilot.app, *TANGLED)
    await pilot.pause()
    assert editor.text == typed(list(TANGLED)) == "YabcefgXW"


@pytest.mark.parametrize("run_key", ["ctrl+s", "f5"])
async def test_a_run_key_right_behind_text_grades_the_whole_text(pilot: Pilot[None], env: AppEnv, run_key: str) -> None:
    editor = main_screen(pilot).panes.editor
    await pilot.press("e")
    editor.show("")
    burst(pilot.app, *TANGLED, run_key)
    await until(pilot, lambda: len(env.client.requests) == 1, "for the run")
    assert env.client.requests[0].submission == "YabcefgXW"
    assert env.file().read_text() == "YabcefgXW"


async def test_leaving_the_program_right_behind_text_keeps_the_text(env: AppEnv) -> None:
    async with env.start() as pilot:
        await pilot.press("e")
        burst(pilot.app, *"x=1", "left", *"2", "ctrl+q")
        await until(pilot, lambda: not pilot.app.is_running or "x=21" in env.file().read_text(), "for the file")
    assert env.file().read_text().startswith("x=21" + DEFAULT_START)


async def test_letters_after_a_command_that_leaves_the_editor_are_no_text(env: AppEnv) -> None:
    async with env.start() as pilot:
        screen = main_screen(pilot)
        await pilot.press("e")
        burst(pilot.app, *"x=1", "f3", "n")
        await until(pilot, lambda: screen.exercise.label == "1.2", "for the next exercise")
        assert screen.panes.current is Pane.TASK
    assert env.file().read_text().startswith("x=1" + DEFAULT_START)


@pytest.mark.parametrize("size", TRIED_SIZES, ids=str)
async def test_letters_right_behind_the_key_that_goes_to_the_editor_are_text(pilot: Pilot[None], env: AppEnv) -> None:
    burst(pilot.app, "f4", *"q=1")
    await until(pilot, lambda: env.file().read_text().startswith("q=1" + DEFAULT_START), "for the text")
    assert pilot.app.is_running


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_letters_after_next_are_commands_and_not_text(
    pilot: Pilot[None], screen: MainScreen, env: AppEnv
) -> None:
    await pilot.press("e")
    await until(pilot, lambda: pilot.app.focused is screen.panes.editor, "for the focus")
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
