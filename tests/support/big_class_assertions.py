"""What must be true of a big class that was graded, however it was: nothing is lost, nothing counts twice."""

from __future__ import annotations

from collections.abc import Iterator

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.jobs import read_failures
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class
from gpututor.cli.main import main
from gpututor.grading.journal import Entry, entries
from gpututor.grading.report import Outcome, Report, Status
from tests.support.big_class import BigClass
from tests.support.class_gradings import written
from tests.support.classes import reports_of

Who = tuple[str, str, int]


def must_be_whole(found: Class, big: BigClass) -> None:
    """Each file is there, once, with what was in it, and as refused as it should be."""
    assert found.unmatched == ()
    read = {(one.student, one.exercise, one.attempt): bool(one.refusal) for one in found.handed_in}
    assert len(read) == len(found.handed_in) == len(big.submissions)
    assert read == {one.who: one.is_refused for one in big.submissions}


def reports(folder: ClassFolder) -> Iterator[tuple[Who, Report | None]]:
    for one, key, report in reports_of(folder):
        assert (report is None) is (key is None) is bool(one.refusal), one
        yield (one.student, one.exercise, one.attempt), report


def nothing_is_lost(folder: ClassFolder, big: BigClass) -> None:
    must_be_whole(folder.read_class(), big)
    assert read_failures(folder) == {}
    found = list(entries(folder.journal))
    assert all(isinstance(entry, Entry) for entry in found)
    keys = {key for _, key, _ in reports_of(folder) if key is not None}
    assert {entry.key for entry in found if isinstance(entry, Entry)} == keys
    assert written(folder) == len(keys)
    assert not list(folder.journal.glob("*/.*"))


def everything_comes_to_what_it_must(folder: ClassFolder, big: BigClass) -> None:
    expected = {one.who: one for one in big.submissions}
    wrong = []
    for who, report in reports(folder):
        one = expected[who]
        outcome = report.outcome if report is not None else Outcome.REJECTED
        failed = [verdict.check for verdict in report.verdicts if verdict.status is not Status.PASSED] if report else []
        if outcome not in one.ends or (one.fails and one.fails not in failed):
            wrong.append((who, one.kind, one.name, outcome, failed))
    assert wrong == []


def the_gradebook_has_everything_once(folder: ClassFolder, big: BigClass) -> None:
    assert main(["classroom", "report", str(folder.folder), "--all"]) == 0
    book = make_gradebook(folder, Rules())
    marks = [mark for student in book.students for mark in student.marks if mark.attempts]
    attempts = [attempt.handed_in for mark in marks for attempt in mark.attempts]
    assert sorted((one.student, one.exercise, one.attempt) for one in attempts) == sorted(
        one.who for one in big.submissions
    )
    assert sorted((mark.student, mark.exercise) for mark in marks) == sorted({one.who[:2] for one in big.submissions})


def both_come_to_the_same(one: ClassFolder, other: ClassFolder, big: BigClass) -> None:
    """Seed for seed. Hostile files that may end in one way or another are left out."""
    unsure = {one.who for one in big.submissions if one.kind == "hostile" and len(one.ends) > 1}

    def facts(folder: ClassFolder) -> dict[Who, object]:
        return {
            who: report
            and (
                report.outcome,
                report.points,
                report.environment.seed,
                [(verdict.scenario, verdict.check, verdict.status, verdict.points) for verdict in report.verdicts],
            )
            for who, report in reports(folder)
            if who not in unsure
        }

    def marks(folder: ClassFolder) -> dict[tuple[str, str], object]:
        return {
            (mark.student, mark.exercise): (mark.standing, mark.mark, mark.points, mark.outcome)
            for student in make_gradebook(folder, Rules()).students
            for mark in student.marks
            if (mark.student, mark.exercise) not in {who[:2] for who in unsure}
        }

    assert len(facts(one)) + len(unsure) == len(big.submissions)
    assert facts(one) == facts(other)
    assert marks(one) == marks(other)
