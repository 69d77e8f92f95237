"""A tiny course, and a way to call the verbs in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.cli.main import main
from tests.support.command_line import Call, Said
from tests.support.tiny_course import write_course


@pytest.fixture
def course_folder(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=2, lessons=2)


@pytest.fixture
def gpututor(course_folder: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    """Call a verb on the tiny course: `gpututor("hint", "1.1")`."""

    def call(*words: str) -> Said:
        capfd.readouterr()
        code = main(["--course", str(course_folder), *words])
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return call
