"""The line of keys names what can be done now, whatever has happened meanwhile."""

from __future__ import annotations

import pytest

from gpututor.app.widgets.results import CheckRow
from tests.support.apps import AppEnv, main_screen, until_shown
from tests.support.parameters import mostly_long
from tests.support.screens import screen_lines


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_a_check_that_opens_during_a_run_leaves_the_lists_keys_named(env: AppEnv, size: tuple[int, int]) -> None:
    env.client.holds = True
    async with env.start(size) as pilot:
        await pilot.press("r", "1")
        await until_shown(pilot, "/ Filter")
        main_screen(pilot).post_message(CheckRow.Opened())
        await pilot.pause()
        assert "/ Filter  v To do" in screen_lines(pilot.app)[-1]
