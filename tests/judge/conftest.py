"""One judge for all tests of this folder, and a tiny course to be graded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.report import Report
from tests.support.gradings import Grade, grade_in
from tests.support.tiny_course import write_course


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        client = GradingClient(workers="fork server" if sys.platform == "linux" else "spare")
        yield client
        client.close()


@pytest.fixture
def exercise_folder(tmp_path: Path) -> Path:
    course = write_course(tmp_path / "course", exercises=1)
    return course / "01_lesson_1" / "01_twice_1_1"


@pytest.fixture
def grade(client: GradingClient, exercise_folder: Path) -> Grade:
    """Grade a text as the tiny exercise's solution."""

    def graded(submission: str, **options: object) -> Report:
        return grade_in(client, exercise_folder, submission, **options)

    return graded
