"""The line of keys names what can be done now, whatever has happened meanwhile."""

from __future__ import annotations

import pytest

from gpututor.app.main.screen import MainScreen
from gpututor.app.messages import CheckOpened
from tests.app.conftest import Desk, main_screen, until_shown
from tests.app.screen import screen_lines
from tests.parameters import mostly_long


@pytest.mark.parametrize("size", mostly_long([(80, 24), (140, 40)], [(80, 24)]), ids=str)
async def test_a_check_that_opens_during_a_run_leaves_the_lists_keys_named(desk: Desk, size: tuple[int, int]) -> None:
    desk.client.holds = True
    async with desk.start(size) as pilot:
        await pilot.press("r", "1")
        await until_shown(pilot, "/ Filter")
        main_screen(pilot).post_message(CheckOpened())
        await pilot.pause()
        assert "/ Filter  v To do" in screen_lines(pilot.app)[-1]


def test_what_a_layer_does_on_a_message_is_overridden_by_none_above_it() -> None:
    """Textual would call the layer's own function all the same."""
    handlers = [
        (layer.__name__, method)
        for layer in MainScreen.__mro__
        if layer.__module__.startswith("gpututor.")
        for found in vars(layer).get("_decorated_handlers", {}).values()
        for method, _ in found
    ]
    assert len(handlers) > 20
    assert [
        f"{name}.{method.__name__}" for name, method in handlers if getattr(MainScreen, method.__name__) is not method
    ] == []
