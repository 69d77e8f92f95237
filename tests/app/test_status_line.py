"""The two lines below the panes: how the file stands is always told, and only keys that can do something now."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from gpututor.app.main.screen import MainScreen
from tests.support.apps import AppEnv, main_screen, until, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import screen_lines
from tests.support.scripted_client import ScriptedClient


@pytest.mark.parametrize("size", mostly_long([(80, 24), (50, 20)], [(80, 24)]), ids=str)
async def test_the_file_state_is_shown_next_to_news_of_any_length(pilot: Pilot[None], screen: MainScreen) -> None:
    screen.status.show_news("The news is long. " * 10)
    await until(pilot, lambda: screen_lines(pilot.app)[-2].endswith("…  saved"), "for both")
    await pilot.press("e", "x")
    screen.status.show_news("The news is long. " * 10)
    await until(pilot, lambda: screen_lines(pilot.app)[-2].endswith("saved"), "for both")
    screen.status.show_news("Short news.")
    await until(pilot, lambda: screen_lines(pilot.app)[-2].endswith(" saved · virtual T4 (modelled)"), "for all")


async def test_during_a_run_the_footer_offers_to_stop(env: AppEnv) -> None:
    env.client = ScriptedClient(holds=True)
    async with env.start() as pilot:
        await until_shown(pilot, "r Run")
        for key in ("r", "3", "1"):
            await pilot.press(key)
            await until(pilot, lambda: "Esc Stop" in screen_lines(pilot.app)[-1], "for the key")
            assert "r Run" not in screen_lines(pilot.app)[-1]
        await pilot.press("escape")
        await until(pilot, lambda: "r Run" in screen_lines(pilot.app)[-1], "to be asked again")


async def test_the_next_key_replaces_an_answer_by_the_news(pilot: Pilot[None]) -> None:
    status = main_screen(pilot).status
    status.show_news("The news.")
    await pilot.press("p")
    await until_shown(pilot, "This is the first exercise of the course.")
    await pilot.press("d")
    await until_shown(pilot, "Nothing has been run yet.")
    await pilot.press("escape")
    await until_shown(pilot, "The news.")
    assert "first exercise of the course" not in screen_lines(pilot.app)[-2]
