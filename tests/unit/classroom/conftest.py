"""A judge that describes checks, without a process of its own."""

from __future__ import annotations

from typing import ClassVar

import pytest

from gpututor.grading.description import CheckDescription


class Describer:
    """A `GradingClient` in this process."""

    asked: ClassVar[list[str]] = []

    def describe(self, exercise_folder: str) -> tuple[CheckDescription, ...]:
        from gpututor.grading.description import description_from_json
        from gpututor.judge.author_code import answer_describe

        self.asked.append(exercise_folder)
        return description_from_json(answer_describe(exercise_folder))

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def describer(monkeypatch: pytest.MonkeyPatch) -> type[Describer]:
    monkeypatch.setattr("gpututor.classroom.rules.GradingClient", Describer)
    monkeypatch.setattr(Describer, "asked", [])
    return Describer
