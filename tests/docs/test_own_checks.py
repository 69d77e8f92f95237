"""The page on own checks: its example is graded as shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome
from tests.support import ROOT
from tests.support.tiny_course import write_course

PAGE = ROOT / "docs" / "authors" / "own-checks.md"
FILE = re.compile(r"^```python\n# file: (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_example_passes_its_solution_and_fails_its_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    folder = write_course(tmp_path / "course", exercises=1) / "01_lesson_1" / "01_twice_1_1"
    manifest = folder / "exercise.toml"
    manifest.write_text(manifest.read_text().replace('entry = "twice"', 'entry = "clipped"\ncases = 3'))
    files = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))
    assert files.keys() == {"given.py", "checks.py", "solution.py", "wrong/not_clipped.py"}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")

    client = GradingClient(workers="fork server" if sys.platform == "linux" else "spare")
    reports = {}
    try:
        for name in ("solution.py", "wrong/not_clipped.py"):
            *_, end = client.grade(GradeRequest(str(folder), files[name], "01_clipped.py", "virtual", seed=1))
            assert isinstance(end, GradingFinished)
            reports[name] = end.report
    finally:
        client.close()

    assert reports["solution.py"].outcome is Outcome.PASSED, reports["solution.py"].reason
    failure = reports["wrong/not_clipped.py"].first_failure
    assert failure is not None
    last_line = files["wrong/not_clipped.py"].count("\n")
    assert (failure.check, failure.line) == ("clipped", last_line)
