"""A learner with a tiny course, in folders of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gpututor.app.main.screen import MainScreen
from gpututor.course.loader import load_course
from tests.support.apps import AppEnv, main_screen
from tests.support.recorded_runs import Timed
from tests.support.tiny_course import write_course


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppEnv:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return AppEnv(tmp_path, load_course(write_course(tmp_path / "course", exercises=2, lessons=2)))


@pytest.fixture
def timed(env: AppEnv) -> AppEnv:
    """Record two calls with each run, and a baseline that takes twice as long."""
    env.client = Timed()
    return env


@pytest.fixture
def size() -> tuple[int, int]:
    return 80, 24


@pytest.fixture
async def pilot(env: AppEnv, size: tuple[int, int]) -> AsyncIterator[Pilot[None]]:
    """Start the app; tests that prepare something before the start call `harness.start` themselves."""
    async with env.start(size) as pilot:
        yield pilot


@pytest.fixture
def screen(pilot: Pilot[None]) -> MainScreen:
    return main_screen(pilot)
