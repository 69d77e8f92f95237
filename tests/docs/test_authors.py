"""The pages of the author's guide: examples of checks run, and its exercises are graded as shown."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

import gpututor.checks
from gpututor.checks import Check
from gpututor.cli.main import main
from gpututor.grading.client import QUICKEST, GradingClient
from gpututor.grading.report import Outcome
from tests.support import ROOT
from tests.support.gradings import failure, grade_in
from tests.support.tiny_course import write_course, write_files

GUIDE = ROOT / "docs" / "authors"
CHECK_PAGES = sorted((GUIDE / "checks").glob("*.md"))
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST = 60
"""Lines of a page on a check."""


def examples(page: Path) -> list[str]:
    """The blocks of a page that define `checks`."""
    blocks: list[str] = EXAMPLE.findall(page.read_text(encoding="utf-8"))
    return [block for block in blocks if re.search(r"^checks = \[", block, re.MULTILINE)]


@pytest.mark.parametrize("page", sorted(GUIDE.rglob("*.md")), ids=lambda page: page.stem)
def test_examples_of_checks_run(page: Path) -> None:
    for block in examples(page):
        namespace: dict[str, object] = {"__name__": "checks"}
        exec(compile(block, str(page), "exec"), namespace)
        checks = namespace["checks"]
        assert isinstance(checks, list)
        assert checks
        assert all(isinstance(check, Check) for check in checks)
        twice = [name for name, times in Counter(check.name for check in checks).items() if times > 1]
        assert twice == []


@pytest.mark.parametrize("page", CHECK_PAGES, ids=lambda page: page.stem)
def test_a_page_on_a_check_has_an_example_and_is_short(page: Path) -> None:
    assert examples(page)
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_each_check_is_in_an_example() -> None:
    shown = "\n".join(block for page in CHECK_PAGES for block in examples(page))
    words = [
        name
        for name in gpututor.checks.__all__
        if getattr(getattr(gpututor.checks, name), "__annotations__", {}).get("return") == "Check"
    ]
    assert len(words) > 15
    missing = [word for word in words if not re.search(rf"\b{word}\(", shown)]
    assert missing == [], "a page in docs/authors/checks shows a Python example of each check"


OWN_CHECKS = ROOT / "docs" / "authors" / "own-checks.md"
PYTHON_FILE = re.compile(r"^```python\n# file: (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_example_passes_its_solution_and_fails_its_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    folder = write_course(tmp_path / "course", exercises=1) / "01_lesson_1" / "01_twice_1_1"
    manifest = folder / "exercise.toml"
    manifest.write_text(manifest.read_text().replace('entry = "twice"', 'entry = "clipped"\ncases = 3'))
    files = dict(PYTHON_FILE.findall(OWN_CHECKS.read_text(encoding="utf-8")))
    assert files.keys() == {"given.py", "checks.py", "solution.py", "wrong/not_clipped.py"}
    write_files(folder, files)

    names = ("solution.py", "wrong/not_clipped.py")
    with contextlib.closing(GradingClient(workers=QUICKEST)) as client:
        right, wrong = (grade_in(client, folder, files[name], device="virtual", seed=1) for name in names)

    assert right.outcome is Outcome.PASSED, right.reason
    check, _, line = failure(wrong)
    last_line = files["wrong/not_clipped.py"].count("\n")
    assert (check, line) == ("clipped", last_line)


STEPS = ROOT / "docs" / "authors" / "step-by-step.md"
FILE = re.compile(r"^(`{3,4})\w+\n(?:# file: (\S+)|<!-- file: (\S+) -->)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_exercise_of_the_guide_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = tmp_path / "my_course"
    assert main(["new", "--course", str(course), "first_steps/stable_softmax"]) == 0
    folder = course / "01_first_steps" / "01_stable_softmax"
    shutil.rmtree(folder / "wrong")
    (folder / "wrong").mkdir()
    files = [(match[2] or match[3], match[4]) for match in FILE.finditer(STEPS.read_text(encoding="utf-8"))]
    assert len(files) == 14
    for name, text in files:
        (folder / name).write_text(text, encoding="utf-8")

    assert main(["verify", "--workers", "1", str(folder)]) == 0, capsys.readouterr().out
