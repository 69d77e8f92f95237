"""A judge that all tests of this folder share, and a tiny course for it to grade."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.grading.client import QUICKEST, GradingClient
from gpututor.grading.report import Report
from tests.support.gradings import USERS_SHELL, Grade, grade_in


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        client = GradingClient(workers=QUICKEST)
        with pytest.MonkeyPatch.context() as shell:
            for name, value in USERS_SHELL.items():
                shell.setenv(name, value)
            client.warm()
        yield client
        client.close()


@pytest.fixture
def grade(client: GradingClient, exercise_folder: Path) -> Grade:
    """Grade a text as the tiny exercise's solution, on the virtual GPU if no device is chosen."""

    def graded(submission: str, **options: object) -> Report:
        return grade_in(client, exercise_folder, submission, **{"device": "virtual", **options})

    return graded
