"""Leaderboards: times of passing submissions, modelled and measured ones apart."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.exports.gradescope import gradescope
from gpututor.classroom.gradebook.leaderboard import leaderboards, standing_of
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.rules import ExerciseRules, LatePolicy, Rules
from gpututor.cli.main import main
from gpututor.grading.report import Report, RunSummary, Status
from tests.support.classes import graded_class
from tests.support.gradebooks import EXERCISE, Upload, gradebook, report, verdict
from tests.support.shipped_course import COURSE

DUE_AT = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)


def timed(*ratios: float, status: Status = Status.PASSED, real: bool = False, wrong: bool = False) -> Report:
    """Make a report with a time for each scenario, on the virtual GPU or a real one."""
    names = [f"scenario {place}" for place in range(len(ratios))]
    speeds = [
        verdict("speed", status, scenario=name, measured=f"{ratio:.2f} × the baseline's time: 1 ms against 1 ms")
        for name, ratio in zip(names, ratios, strict=True)
    ]
    parity = verdict("parity", Status.FAILED if wrong else Status.PASSED, scenario=names[0])
    device = "cuda:0, NVIDIA H100" if real else "cuda:0, virtual T4"
    runs = [RunSummary(name, device, not real, times="measured" if real else "modelled") for name in names]
    return replace(report(parity, *speeds), runs=tuple(runs))


def shown(book: Gradebook) -> dict[str, list[tuple[int, str, float]]]:
    return {
        board.timed.words: [(each.place, each.student, each.ratio) for each in board.places]
        for board in leaderboards(book)
    }


def test_only_passing_submissions_have_places_and_equal_times_share_one() -> None:
    files = [
        Upload("kim", timed(0.5, 0.8)),
        Upload("lee", timed(0.8)),
        Upload("lee", timed(0.9)),
        Upload("moe", timed(0.9)),
        Upload("ana", timed(0.4)),
        Upload("slow", timed(1.5, status=Status.TOO_SLOW)),
        Upload("wrong", timed(0.1, wrong=True)),
        Upload("odd", replace(timed(0.01), outcome=report(verdict("x"), suspicions=("s",)).outcome, suspicions=("s",))),
    ]
    book = gradebook(files)
    assert shown(book) == {
        "modelled on virtual T4": [(1, "ana", 0.4), (2, "kim", 0.8), (2, "lee", 0.8), (4, "moe", 0.9)],
    }
    (words,) = standing_of(leaderboards(book), "lee")
    assert "place 2 of 4, 0.8 × the baseline's time, modelled on virtual T4" in words
    assert list(standing_of(leaderboards(book), "wrong")) == []


def test_modelled_and_measured_times_never_share_a_leaderboard() -> None:
    mixed = replace(timed(0.7, 0.6), runs=(*timed(0.7).runs, *replace(timed(1, 0.6, real=True)).runs[1:]))
    book = gradebook([Upload("kim", timed(0.5)), Upload("lee", timed(0.4, real=True)), Upload("moe", mixed)])
    assert shown(book) == {
        "modelled on virtual T4": [(1, "kim", 0.5), (2, "moe", 0.7)],
        "measured on NVIDIA H100": [(1, "lee", 0.4), (2, "moe", 0.6)],
    }
    texts, _ = gradescope(book)
    columns = {name: json.loads(text or "")["leaderboard"] for name, text in texts.items()}
    assert [each["value"] for each in columns["kim/results.json"]] == [0.5]
    names = {
        student: {each["name"] for each in columns[f"{student}/results.json"]} for student in ("kim", "lee", "moe")
    }
    assert names["kim"].isdisjoint(names["lee"])
    assert names["moe"] == names["kim"] | names["lee"]


@pytest.mark.parametrize(
    "rules",
    [
        Rules(leaderboard=False),
        Rules(exercises=MappingProxyType({EXERCISE: ExerciseRules(leaderboard=False)})),
        Rules(hidden=("speed",)),
        Rules(hidden_until_due=("speed",)),
    ],
)
def test_rules_switch_leaderboards_off(rules: Rules) -> None:
    book = gradebook([Upload("kim", timed(0.5))], rules)
    assert leaderboards(book) == []
    assert "leaderboard" not in json.loads(gradescope(book)[0]["kim/results.json"] or "")
    on = replace(rules, leaderboard=False, exercises=MappingProxyType({EXERCISE: ExerciseRules(leaderboard=True)}))
    assert len(leaderboards(gradebook([Upload("kim", timed(0.5))], on))) == (
        "speed" not in (*on.hidden, *on.hidden_until_due)
    )


def test_a_submission_that_came_too_late_has_no_place() -> None:
    rules = Rules(due=DUE_AT, late=LatePolicy(10, reject_after_hours=1))
    late = Upload("kim", timed(0.1), submitted_at="2026-03-02T03:00:00+00:00")
    in_time = Upload("kim", timed(0.5), submitted_at="2026-03-01T03:00:00+00:00")
    assert shown(gradebook([in_time, late], rules)) == {"modelled on virtual T4": [(1, "kim", 0.5)]}


def test_the_terminal_has_names_and_the_page_for_students_has_pseudonyms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ClassFolder(tmp_path / "class")
    files = [("kimberly", EXERCISE, "a", timed(0.5)), ("leopold", EXERCISE, "b", timed(0.4))]
    graded_class(folder, files, COURSE.folder)
    page, out = tmp_path / "board.html", str(folder.folder)
    assert main(["classroom", "leaderboard", out, "hidden_syncs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:]] == [["1", "0.40", "×", "leopold"], ["2", "0.50", "×", "kimberly"]]
    assert main(["classroom", "leaderboard", out, "--html", str(page)]) == 0
    html = page.read_text()
    assert "modelled on virtual T4" in html
    assert "kimberly" not in html
    assert main(["classroom", "feedback", out]) == 0
    pseudonym = next(word for word in (folder.feedback / "kimberly.md").read_text().split("`") if "student-" in word)
    assert pseudonym in html
    assert main(["classroom", "leaderboard", out, "--html", str(page), "--names"]) == 0
    assert "kimberly" in page.read_text()
    capsys.readouterr()
    assert main(["classroom", "leaderboard", out, "one_big_copy"]) == 2
    before = folder.class_file.read_bytes()
    assert main(["classroom", "leaderboard", out, "--html", str(folder.class_file)]) == 2
    assert folder.class_file.read_bytes() == before
    assert main(["classroom", "report", out, "--html", str(page)]) == 0
    assert '<section id="leaderboard"' in page.read_text()
