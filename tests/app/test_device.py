"""The device screen: how it is opened, what it says of a call, and how one gets from there to a line."""

from __future__ import annotations

from textual.pilot import Pilot

from gpututor.app.commands import Pane
from gpututor.app.screens.device import DeviceScreen
from tests.app.conftest import Desk, main_screen, until, until_shown
from tests.app.screen import screen_text
from tests.app.test_path import run_checks


async def open_device(pilot: Pilot[None], key: str = "d") -> DeviceScreen:
    """Open the screen, and wait until the timeline is there."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.screen, DeviceScreen), "for the screen")
    screen = pilot.app.screen
    assert isinstance(screen, DeviceScreen)
    await until(pilot, lambda: screen.view is None or screen.tab is not None, "for the tab")
    await pilot.pause()
    return screen


async def test_after_a_run_the_timeline_is_one_key_away(desk: Desk) -> None:
    async with desk.start() as pilot:
        await run_checks(pilot)
        await until_shown(pilot, "d shows what it did")
        await open_device(pilot)
        text = screen_text(pilot.app)
        for words in ("host", "default stream", "stream 1", "to the device", "to the host", "(modelled)"):
            assert words in text
        await pilot.press("escape")
        assert main_screen(pilot).is_current
