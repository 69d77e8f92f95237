"""The author's guide, step by step: its exercise passes the gate."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from gpututor.cli.main import main
from tests.support import ROOT

PAGE = ROOT / "docs" / "authors" / "step-by-step.md"
FILE = re.compile(r"^(`{3,4})\w+\n(?:# file: (\S+)|<!-- file: (\S+) -->)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_exercise_of_the_guide_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = tmp_path / "my_course"
    assert main(["new", "--course", str(course), "first_steps/stable_softmax"]) == 0
    folder = course / "01_first_steps" / "01_stable_softmax"
    shutil.rmtree(folder / "wrong")
    (folder / "wrong").mkdir()
    files = [(match[2] or match[3], match[4]) for match in FILE.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(files) == 14
    for name, text in files:
        (folder / name).write_text(text, encoding="utf-8")

    assert main(["verify", "--workers", "1", str(folder)]) == 0, capsys.readouterr().out
