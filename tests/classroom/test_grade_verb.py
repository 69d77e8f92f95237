"""`gpututor classroom grade`, from the folder to the journal: the classroom's one quick test that grades for real."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.cli.main import main
from gpututor.grading.report import Outcome
from tests.support.classes import reports_of
from tests.support.tiny_course import write_course

SUBMISSIONS = {
    "kim": "def twice(number):\n    return 2 * number\n",
    "lee": "def twice(number):\n    return 3 * number\n",
    "max": "def twice(number)\n    return number\n",
    "zoe": "def twice(number):\n    return 2 * number\n",
}


def test_where_nothing_can_be_graded_it_is_said_why_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course, handed_in, out = write_course(tmp_path / "course", exercises=1), tmp_path / "in", tmp_path / "out"
    words = ["classroom", "grade", str(handed_in), "--out", str(out), "--isolation", "process", "--device", "virtual"]
    words += ["--course", str(course)]
    handed_in.mkdir()
    for student in ("kim", "lee"):
        with zipfile.ZipFile(handed_in / f"{student}.zip", "w") as archive:
            archive.writestr("twice_1_1.py", SUBMISSIONS["kim"])
            archive.writestr("gpututor-pack.json", '{"course": "my_course"}')
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "Nothing that was handed in can be graded with the course 'tiny'." in error
    assert "packed for the course 'my_course': name its folder with --course DIR." in error
    assert not (out / "class.json").exists()

    for student in ("kim", "lee"):
        (handed_in / f"{student}.zip").unlink()
        (handed_in / student).mkdir()
        (handed_in / student / "homework.py").write_text(SUBMISSIONS["kim"])
    assert main(words) == 2
    assert "--exercise" in capsys.readouterr().err

    (handed_in / "kim" / "twice_1_1.py").write_bytes(b"\xff\xfe")
    assert main(words) == 4
    said = capsys.readouterr().out
    assert "Nothing can be graded: every file is refused, for the reasons above." in said
    assert "Nothing is left to grade" not in said
    assert (out / "class.json").exists()


def test_a_class_is_graded_and_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course, handed_in, out = write_course(tmp_path / "course", exercises=1), tmp_path / "in", tmp_path / "out"
    for student, text in SUBMISSIONS.items():
        (handed_in / student).mkdir(parents=True)
        (handed_in / student / "twice_1_1.py").write_text(text)
    words = ["classroom", "grade", str(handed_in), "--out", str(out), "--isolation", "process", "--judges", "1"]
    words += ["--device", "virtual", "--course", str(course)]

    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert "class.secret" in said.err
    summary = json.loads(said.out)
    assert (summary["handed_in"], summary["gradings"], summary["done"], summary["already"]) == (4, 3, 3, 0)
    assert summary["outcomes"] == {"passed": 1, "failed": 1, "error": 1}
    reports = {one.student: report for one, _, report in reports_of(ClassFolder(out))}
    assert {student: report and report.outcome for student, report in reports.items()} == {
        "kim": Outcome.PASSED,
        "lee": Outcome.FAILED,
        "max": Outcome.ERROR,
        "zoe": Outcome.PASSED,
    }

    assert main(words) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["classroom", "grade", str(handed_in), "--out", str(out), "--resume"]) == 0
    assert "Nothing is left to grade; 3 are graded already." in capsys.readouterr().out

    (handed_in / "zoe").rename(handed_in / "zo\u202e")
    assert main(["classroom", "grade", str(handed_in), "--out", str(out), "--resume"]) == 0
    assert "1 student of the last time is not here now, and not reported:\n  zoe\n" in capsys.readouterr().out

    (out / "classroom.toml").write_text("decimals = 1  # by hand\n")
    (tmp_path / "old.toml").write_text("decimals = 3\n")
    for _ in range(2):
        rules = ["--rules", str(tmp_path / "old.toml")]
        assert main(["classroom", "grade", str(handed_in), "--out", str(out), "--resume", *rules]) == 0
    assert (out / "classroom.toml").read_text() == "decimals = 3\n"
    assert [kept.read_text() for kept in (out / "replaced").iterdir()] == ["decimals = 1  # by hand\n"]
