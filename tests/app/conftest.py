"""A learner with a tiny course, in folders of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.course.loader import load_course
from tests.support.apps import Desk
from tests.support.tiny_course import write_course


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Desk(tmp_path, load_course(write_course(tmp_path / "course", exercises=2, lessons=2)))
