"""Whatever is pressed, clicked, pasted, resized and changed on disk: the app goes on, and no text is lost."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.app.screen import SIZES
from tests.app.storm import ACTIONS, LEAVING, Action, blow

STORMS = {
    "size": st.sampled_from(SIZES),
    "actions": st.lists(ACTIONS, min_size=15, max_size=45),
    "leaving": st.sampled_from(LEAVING),
}
RULES = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def storm(size: tuple[int, int], actions: list[Action], leaving: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        asyncio.run(blow(Path(folder), size, actions, leaving))


@settings(RULES, max_examples=8, derandomize=True)
@given(**STORMS)
def test_a_storm_neither_crashes_the_app_nor_loses_text(
    size: tuple[int, int], actions: list[Action], leaving: str
) -> None:
    storm(size, actions, leaving)


@pytest.mark.long
@settings(RULES, max_examples=250, print_blob=True)
@given(**STORMS)
def test_many_storms_neither_crash_the_app_nor_lose_text(
    size: tuple[int, int], actions: list[Action], leaving: str
) -> None:
    storm(size, actions, leaving)
