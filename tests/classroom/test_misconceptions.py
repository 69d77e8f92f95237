"""Failures of a class compared with the wrong solutions of its exercises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.misconceptions import WrongSolution, similar
from gpututor.classroom.submissions import Submission
from gpututor.cli.main import main
from gpututor.grading.report import Outcome, Report, Status, Verdict
from tests.support.class_layouts import hand_in
from tests.support.classes import describe_tiny_checks, report_of
from tests.support.tiny_course import RIGHT, write_course

TEXTS = {
    "ann": RIGHT,
    "ben": "def twice(number):\n    pass\n",
    "kim": "def twice(number):\n    print('so far')\n    return None\n",
    "lee": "def twice(number):\n    raise KeyError(number)\n",
    "zoe": "def twice(number):\n    return None  # unsure\n",
}


@pytest.mark.long
def test_a_report_counts_the_failures_that_look_like_wrong_solutions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_tiny_checks(monkeypatch)
    course, out = write_course(tmp_path / "course", exercises=1), tmp_path / "out"
    submitted = hand_in(tmp_path / "class", TEXTS)
    grade = ["classroom", "grade", str(submitted), "--out", str(out), "--course", str(course)]
    assert main([*grade, "--device", "cpu", "--isolation", "process", "--judges", "1"]) == 0
    graded = len(list(ClassFolder(out).journal.glob("*/*.json")))
    capsys.readouterr()

    assert main(["classroom", "report", str(out), "--misconceptions"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-3:] == [
        "1.1 Twice 1",
        "  3 of 5  It returns nothing. (wrong/nothing.py)",
        "  1 of 5  failed in another way",
    ]
    assert "3 wrong solutions to grade, once." in said.err
    assert len(list(ClassFolder(out).journal.glob("*/*.json"))) == graded + 3

    assert main(["classroom", "report", str(out), "--misconceptions", "--json"]) == 0
    said = capsys.readouterr()
    assert "to grade" not in said.err
    assert json.loads(said.out)["misconceptions"] == [
        {
            "exercise": "lesson_1/twice_1_1",
            "wrong": [{"file": "wrong/nothing.py", "sentence": "It returns nothing."}],
            "students": ["ben", "kim", "zoe"],
        },
        {"exercise": "lesson_1/twice_1_1", "wrong": [], "students": ["lee"]},
    ]

    page = tmp_path / "page.html"
    assert main(["classroom", "report", str(out), "--misconceptions", "--html", str(page)]) == 0
    assert "  3 of 5  It returns nothing. (wrong/nothing.py)" in capsys.readouterr().out
    assert "It returns nothing. (wrong/nothing.py)</th>" in page.read_text()
    assert main(["classroom", "report", str(out), "--html", str(page)]) == 0
    assert "It returns nothing." not in page.read_text()

    checks = course / "01_lesson_1" / "01_twice_1_1" / "wrong" / "once.py"
    checks.write_text(f"{checks.read_text()}\n# changed\n")
    assert main(["classroom", "report", str(out), "--misconceptions"]) == 2
    assert "Changed since the grading: the files of the exercise lesson_1/twice_1_1" in capsys.readouterr().err


def failing(*failed: tuple[str, str, str], of: float = 1.0) -> Report:
    """Make a report with failed checks: scenario, check and what it got."""
    verdicts = (
        Verdict(check, "A rule.", Status.FAILED, scenario, expected="1", got=got, of=of)
        for scenario, check, got in failed
    )
    return report_of("lesson/one", Outcome.FAILED, tuple(verdicts))


def wrong(name: str) -> WrongSolution:
    return WrongSolution(Submission("", "lesson/one", f"wrong/{name}.py", name), f"{name}.")


def names(report: Report, **graded: Report) -> list[str]:
    return [each.sentence for each in similar(report, [(wrong(name), other) for name, other in graded.items()])]


def test_checks_scenarios_and_words_decide_unless_too_many_are_alike() -> None:
    single = failing(("a", "syncs", "3 waits"))
    both = failing(("a", "syncs", "3 waits"), ("b", "syncs", "3 waits"))
    copies = failing(("a", "transfers", "3 copies"))
    assert names(failing(("a", "syncs", "17 waits")), single=single, both=both, copies=copies) == ["single."]
    assert names(failing(("a", "syncs", "a wait")), single=single, both=both, copies=copies) == ["single."]
    assert names(failing(("b", "syncs", "3 waits")), single=single, both=both, copies=copies) == []
    other = failing(("a", "syncs", "3 waits in a loop"))
    assert names(failing(("a", "syncs", "9 waits in a loop")), single=single, other=other) == ["other."]
    assert names(failing(("a", "syncs", "nothing")), single=single, other=other) == ["single.", "other."]
    graded = {name: failing(("a", "value", name)) for name in "pqrs"}
    assert names(failing(("a", "value", "q")), **graded) == ["q."]
    assert names(failing(("a", "value", "t")), **graded) == []
    no_gpu = failing(("a", "runs", "RuntimeError: no GPU 0"), of=0.0)
    assert names(failing(("a", "runs", "RuntimeError: no GPU 1"), of=0.0), needs_a_gpu=no_gpu) == ["needs_a_gpu."]
    assert names(failing(("a", "runs", "NotImplementedError"), of=0.0), needs_a_gpu=no_gpu) == []
