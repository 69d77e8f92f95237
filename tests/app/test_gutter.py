"""After a run the editor's edge says what each line cost."""

from __future__ import annotations

import pytest

from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.recorded_runs import Timed, run
from tests.support.screens import screen_text


@pytest.fixture
def timed(env: AppEnv) -> AppEnv:
    env.client = Timed()
    return env


async def test_a_run_puts_its_costs_at_the_edge(timed: AppEnv) -> None:
    async with timed.start((140, 40)) as pilot:
        editor = main_screen(pilot).panes.editor
        assert not editor.has_costs
        await run(pilot, timed)
        await until(pilot, lambda: editor.has_costs, "for the costs")
        await pilot.press("e")
        editor.move_cursor((5, 0))
        await until_shown(pilot, "Line 6, both calls: 4 kernels (1.59 ms), 128 MiB allocated; modelled.")
        row = next(line for line in screen_text(pilot.app).splitlines() if "print(x.sum().item())" in line)
        assert "‖ 4" in row


async def test_after_an_edit_they_are_said_to_be_of_before(timed: AppEnv) -> None:
    async with timed.start((140, 40)) as pilot:
        editor = main_screen(pilot).panes.editor
        await run(pilot, timed)
        await until(pilot, lambda: editor.has_costs, "for the costs")
        await pilot.press("e", "#")
        editor.move_cursor((6, 0))
        await until_shown(pilot, "Line 7, as it ran")


async def test_each_exercise_has_its_own_and_they_are_there_after_a_restart(timed: AppEnv) -> None:
    async with timed.start() as pilot:
        editor = main_screen(pilot).panes.editor
        await run(pilot, timed)
        await until(pilot, lambda: editor.has_costs, "for the costs")
        await pilot.press("n")
        await until(pilot, lambda: not editor.has_costs, "for none")
        await pilot.press("p")
        await until(pilot, lambda: editor.has_costs, "for those of before")
    async with timed.start() as pilot:
        editor = main_screen(pilot).panes.editor
        await until(pilot, lambda: editor.has_costs, "for the costs after a restart")
