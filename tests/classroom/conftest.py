"""A judge that describes checks, without a process of its own."""

from __future__ import annotations

import pytest

from tests.support.fake_judges import Describer


@pytest.fixture(autouse=True)
def describer(monkeypatch: pytest.MonkeyPatch) -> type[Describer]:
    monkeypatch.setattr("gpututor.classroom.rules.GradingClient", Describer)
    monkeypatch.setattr(Describer, "asked", [])
    return Describer
