"""Slip days: a budget of days, spent in the order of due dates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports.csv import wide
from gpututor.classroom.gradebook.exports.gradescope import gradescope
from gpututor.classroom.gradebook.model import MarkStatus
from gpututor.classroom.gradebook.terminal import lines_of
from gpututor.classroom.history import HistoryEntry, HistoryEvent, add_entry
from gpututor.classroom.rules import ExerciseRules, Extension, LatePolicy, Rules, rules_for
from gpututor.cli.main import main
from gpututor.grading.report import Report, Status
from tests.support.classes import graded_class
from tests.support.gradebooks import EXERCISE, OTHER, Upload, gradebook, points, report, verdict
from tests.support.shipped_course import COURSE

DUE = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = DUE + timedelta(days=7)
FIRST, SECOND = EXERCISE, OTHER
FULL = points(4, 4)
FEW = settings(max_examples=60)


def rules(slip_days: int, *, is_one_date: bool = False, **late: float) -> Rules:
    """Make rules in which FIRST is due a week before SECOND, or at the same time."""
    due = {FIRST: ExerciseRules(due=DUE), SECOND: ExerciseRules(due=DUE if is_one_date else LATER)}
    policy = LatePolicy(**{"per_cent": 10, **late})  # type: ignore[arg-type]
    return Rules(slip_days=slip_days, late=policy, exercises=MappingProxyType(due))


def upload(exercise: str, graded: Report | None = FULL, **late: float) -> Upload:
    due = DUE if exercise == FIRST else LATER
    graded = replace(graded, exercise=exercise) if graded is not None else None
    return Upload("kim", graded, exercise, submitted_at=(due + timedelta(**late)).isoformat())


def result(files: Sequence[Upload], given: Rules) -> tuple[list[float], int]:
    """Return Kim's marks for FIRST and SECOND, and the slip days spent."""
    kim = gradebook(files, given).student("kim")
    marks = {mark.exercise: mark.points for mark in kim.marks}
    return [marks[key] for key in (FIRST, SECOND) if key in marks], kim.slip_days


@pytest.mark.parametrize(
    ("late", "mark", "spent"),
    [
        (timedelta(0), 4, 0),
        (timedelta(seconds=1), 4, 1),
        (timedelta(days=1), 4, 1),
        (timedelta(days=1, seconds=1), 4, 2),
        (timedelta(days=2), 4, 2),
        (timedelta(days=2, seconds=1), 3.6, 2),
        (timedelta(days=4), 3.2, 2),
    ],
)
def test_a_started_day_after_the_deadline_costs_a_slip_day(late: timedelta, mark: float, spent: int) -> None:
    assert result([upload(FIRST, days=late.days, seconds=late.seconds)], rules(2)) == ([mark], spent)


def test_the_grace_period_moves_with_the_due_date() -> None:
    in_grace = rules(5, grace_minutes=15)
    assert result([upload(FIRST, minutes=15)], in_grace) == ([4], 0)
    assert result([upload(FIRST, minutes=16)], in_grace) == ([4], 1)
    assert result([upload(FIRST, days=1, minutes=15)], in_grace) == ([4], 1)


def test_days_are_spent_by_due_date_until_none_is_left() -> None:
    files = [upload(SECOND, days=2), upload(FIRST, days=2)]
    assert result(files, rules(0)) == ([3.2, 3.2], 0)
    assert result(files, rules(3)) == ([4, 3.6], 3)
    assert result(files, rules(9)) == ([4, 4], 4)
    extended = replace(rules(3), extensions=(Extension("kim", FIRST, due=LATER + timedelta(days=1)),))
    last = [upload(SECOND, days=2), upload(FIRST, days=10)]  # due after SECOND now, and two days late
    assert result(last, extended) == ([3.6, 4], 3)


def test_a_day_moves_a_due_date_for_all_of_its_exercises() -> None:
    files = [upload(FIRST, days=1), replace(upload(SECOND), submitted_at=(DUE + timedelta(days=2)).isoformat())]
    assert result(files, rules(2, is_one_date=True)) == ([4, 4], 2)


def test_days_are_not_spent_without_a_use() -> None:
    wrong = report(verdict("parity", Status.FAILED))
    assert result([upload(FIRST, wrong, days=2), upload(SECOND, days=2)], rules(2)) == ([0, 4], 2)
    capped = rules(2, most_per_cent=20)
    assert result([upload(FIRST, days=5), upload(SECOND, days=2)], capped) == ([3.2, 4], 2)
    rejected = rules(2, reject_after_hours=24)
    assert result([upload(FIRST, days=5), upload(SECOND, days=3)], rejected) == ([0, 3.6], 2)
    dropped = replace(rules(2), drop=(FIRST,))
    assert result([upload(FIRST, days=2), upload(SECOND, days=2)], dropped)[1] == 2
    assert result([upload(FIRST, days=2), upload(SECOND, days=2)], dropped)[0][1] == 4
    refused = replace(upload(FIRST, None, days=2), refusal="It is a link.")
    assert result([refused, upload(SECOND, days=2)], rules(2))[0][1] == 4


def test_the_attempt_that_counts_is_chosen_with_slip_days() -> None:
    files = [upload(FIRST, points(3, 4), hours=-1), upload(FIRST, days=3)]
    assert result(files, rules(0)) == ([3], 0)
    assert result(files, rules(1)) == ([3.2], 1)
    assert result([upload(FIRST, hours=-1), upload(FIRST, days=1)], rules(3)) == ([4], 0)
    last = replace(rules(3), attempts="last")
    assert result([upload(FIRST, hours=-1), upload(FIRST, days=1)], last) == ([4], 1)


def test_an_open_mark_keeps_its_days() -> None:
    undecided = report(verdict("parity", Status.INCONCLUSIVE, of=4))
    assert result([upload(FIRST, undecided, days=2), upload(SECOND, days=2)], rules(2)) == ([0, 3.2], 2)
    others = Upload("lee", FULL, FIRST)
    assert result([upload(FIRST, None, days=2), upload(SECOND, days=2), others], rules(2)) == ([0, 3.2], 2)


def test_an_extension_comes_before_slip_days() -> None:
    extended = replace(rules(2), extensions=(Extension("kim", FIRST, hours=24),))
    assert result([upload(FIRST, days=1)], extended) == ([4], 0)
    assert result([upload(FIRST, days=1, seconds=1)], extended) == ([4], 1)


def test_a_file_that_only_the_platform_calls_late_costs_a_day() -> None:
    late = Upload("kim", FULL, FIRST, late=True)
    assert result([late], rules(0)) == ([3.6], 0)
    assert result([late], rules(1)) == ([4], 1)
    assert result([late], replace(rules(1), extensions=(Extension("kim", hours=1),))) == ([4], 0)


@given(st.lists(st.integers(0, 400), min_size=2, max_size=2), st.integers(0, 9))
@example([265, 25], 2)
@FEW
def test_another_day_never_lowers_the_first_mark_nor_is_spent_twice(hours: list[int], budget: int) -> None:
    """It may lower a later mark: the third day earns 0.4 points for an exercise that is 12 days late."""
    files = [upload(FIRST, hours=hours[0]), upload(SECOND, hours=hours[1])]
    marks, spent = result(files, rules(budget))
    more, _ = result(files, rules(budget + 1))
    assert more[0] >= marks[0]
    assert result([files[0]], rules(budget))[0][0] == marks[0], "a later file changes no earlier mark"
    assert spent == min(budget, sum(-(-late // 24) for late in hours)) or min(marks) < 4 * 0.1
    assert spent <= budget


@pytest.fixture
def folder(tmp_path: Path) -> ClassFolder:
    """Kim submitted FIRST two days late and SECOND one day late, with two slip days."""
    folder = ClassFolder(tmp_path / "class")
    files = [("kim", FIRST, "a", FULL), ("kim", SECOND, "b", replace(FULL, exercise=SECOND))]
    class_ = graded_class(folder, files, COURSE.folder)
    times = {FIRST: DUE + timedelta(days=2), SECOND: LATER + timedelta(hours=1)}
    submissions = (replace(each, submitted_at=times[each.exercise].isoformat()) for each in class_.submissions)
    folder.write_class(replace(class_, submissions=tuple(submissions)))
    dates = "".join(f"[exercises.'{key}']\ndue = {at.isoformat()}\n" for key, at in ((FIRST, DUE), (SECOND, LATER)))
    folder.rules_file.write_text(f"slip_days = 2\n[late]\nper_cent = 10\n{dates}")
    return folder


def test_used_and_left_days_are_in_every_report(folder: ClassFolder, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = str(folder.folder), folder.folder / "page.html"
    assert main(["classroom", "feedback", out]) == 0
    text = (folder.feedback / "kim.md").read_text()
    assert "Slip days: 2 used, 0 left." in text
    assert "Late, but on time with 2 slip days." in text
    assert "Late (1 started day): 10 percent is taken off." in text
    capsys.readouterr()
    assert main(["classroom", "report", out]) == 0
    header, row = (line for line in capsys.readouterr().out.splitlines() if line.startswith(("Student ", "kim ")))
    assert "Slip days" in header
    assert "2 of 2" in row
    assert main(["classroom", "report", out, "--json", "--html", str(page)]) == 0
    (kim,) = json.loads(capsys.readouterr().out)["students"]
    assert kim["slip_days"] == 2
    assert {mark["exercise"]: mark["slip_days"] for mark in kim["marks"]} == {FIRST: 2, SECOND: 0}
    assert "Slip days: 2 used, 0 left." in page.read_text()
    book = make_gradebook(folder, rules_for(folder))
    assert "Slip days: 2 used, 0 left." in (gradescope(book)[0]["kim/results.json"] or "")
    assert wide(book).splitlines()[1].startswith("kim,,,,7.6,7.6,8,0,2,")


def test_a_mark_by_hand_changes_no_other_mark(folder: ClassFolder) -> None:
    before = make_gradebook(folder, rules_for(folder)).student("kim")
    add_entry(
        folder, HistoryEntry(HistoryEvent.MARKED, "kim", FIRST, "ada", "appeal", "2026-03-09T00:00:00+00:00", 1.0)
    )
    after = make_gradebook(folder, rules_for(folder)).student("kim")
    assert after.mark_of(FIRST).points == 1
    assert after.mark_of(SECOND).points == before.mark_of(SECOND).points == 3.6
    assert after.slip_days == before.slip_days == 2


def test_without_slip_days_nothing_mentions_them() -> None:
    book = gradebook([upload(FIRST)], rules(0))
    assert not any("Slip" in line for line in lines_of(book, 100))
    assert "Slip" not in (gradescope(book)[0]["kim/results.json"] or "")
    assert book.student("kim").marks[0].status is MarkStatus.FINAL
