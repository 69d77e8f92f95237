"""One judge for all exercises: it is started once, and stays warm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpututor.course.exercise import Exercise
from gpututor.grading.client import GradingClient
from gpututor.grading.events import Graded, GradeRequest
from gpututor.grading.report import Report

Grade = Callable[[Exercise, str, int], Report]


@pytest.fixture(scope="session")
def grade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grade]:
    """Grade a text as a submission to an exercise, on the virtual GPU, with inputs of that seed."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        client = GradingClient()

        def grade_once(exercise: Exercise, submission: str, seed: int) -> Report:
            request = GradeRequest(str(exercise.folder), submission, f"{exercise.slug}.py", "virtual", seed=seed)
            last = list(client.grade(request))[-1]
            assert isinstance(last, Graded)
            return last.report

        try:
            yield grade_once
        finally:
            client.close()
