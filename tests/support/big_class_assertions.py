"""Checks of a graded big class: nothing is lost, nothing counts twice, and all results are as expected."""

from __future__ import annotations

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.jobs import read_failures
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class
from gpututor.cli.main import main
from gpututor.grading.journal import JournalEntry, entries
from gpututor.grading.report import Outcome, Report, Status
from tests.support.big_class import BigClass
from tests.support.class_gradings import written
from tests.support.classes import reports_of

Who = tuple[str, str, int]


def check_read(class_: Class, big: BigClass) -> None:
    """Check that each file was read once, and refused if it should be."""
    assert class_.unmatched == ()
    read = {(each.student, each.exercise, each.attempt): bool(each.refusal) for each in class_.submissions}
    assert len(read) == len(class_.submissions) == len(big.submissions)
    assert read == {each.who: each.is_refused for each in big.submissions}


def check_graded_alike(big: BigClass, *folders: ClassFolder) -> None:
    """Check each grading of the class, and that all have the same results."""
    results = []
    for folder in folders:
        check_read(folder.read_class(), big)
        _check_journal(folder)
        reports = _reports(folder)
        _check_outcomes(reports, big)
        results.append((_facts(reports, big), _marks(folder, big)))
    assert all(result == results[0] for result in results)


def _reports(folder: ClassFolder) -> dict[Who, Report | None]:
    reports = {}
    for each, key, report in reports_of(folder):
        assert (report is None) is (key is None) is bool(each.refusal), each
        reports[each.student, each.exercise, each.attempt] = report
    return reports


def _check_journal(folder: ClassFolder) -> None:
    assert read_failures(folder) == {}
    files = list(entries(folder.journal))
    assert all(isinstance(entry, JournalEntry) for entry in files)
    keys = {key for _, key, _ in reports_of(folder) if key is not None}
    assert {entry.key for entry in files if isinstance(entry, JournalEntry)} == keys
    assert written(folder) == len(keys)
    assert not list(folder.journal.glob("*/.*"))


def _check_outcomes(reports: dict[Who, Report | None], big: BigClass) -> None:
    wrong = []
    for expected in big.submissions:
        report = reports[expected.who]
        outcome = report.outcome if report is not None else Outcome.REJECTED
        failed = [verdict.check for verdict in report.verdicts if verdict.status is not Status.PASSED] if report else []
        if outcome not in expected.ends or (expected.fails and expected.fails not in failed):
            wrong.append((expected.who, expected.kind, expected.name, outcome, failed))
    assert wrong == []


def _unsure(big: BigClass) -> set[Who]:
    """Return the hostile files with several possible outcomes."""
    return {each.who for each in big.submissions if each.kind == "hostile" and len(each.ends) > 1}


def _facts(reports: dict[Who, Report | None], big: BigClass) -> dict[Who, object]:
    """Return the results and seeds of all reports with a certain outcome."""
    return {
        who: report
        and (
            report.outcome,
            report.points,
            report.environment.seed,
            [(verdict.scenario, verdict.check, verdict.status, verdict.points) for verdict in report.verdicts],
        )
        for who, report in reports.items()
        if who not in _unsure(big)
    }


def _marks(folder: ClassFolder, big: BigClass) -> dict[tuple[str, str], object]:
    """Return the certain marks, after a check that the gradebook has each attempt once."""
    assert main(["classroom", "report", str(folder.folder), "--all"]) == 0
    book = make_gradebook(folder, Rules())
    marks = [mark for student in book.students for mark in student.marks if mark.attempts]
    attempts = [attempt.submission for mark in marks for attempt in mark.attempts]
    assert sorted((each.student, each.exercise, each.attempt) for each in attempts) == sorted(
        each.who for each in big.submissions
    )
    unsure = {who[:2] for who in _unsure(big)}
    # A hostile thread acts sooner or later, so that its mark may be open.
    hostile = {each.who[:2] for each in big.submissions if each.kind == "hostile"}
    return {
        who: mark.outcome if who in hostile else (mark.status, mark.mark, mark.points, mark.outcome)
        for mark in marks
        if (who := (mark.student, mark.exercise)) not in unsure
    }
