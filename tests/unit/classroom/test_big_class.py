"""A big class is read, graded and reported on: nothing is lost, nothing counts twice, and all comes to what it must.

It is graded twice with the same secret: on a machine where nothing happens, and in another layout on one where judges
are killed all the time and the whole is killed again and again.
"""

from __future__ import annotations

import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from gpututor.classroom.batch import reports_of, troubles_of
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.make import make_gradebook
from gpututor.classroom.handed_in import Class
from gpututor.classroom.intake import LAYOUTS, read_class
from gpututor.classroom.rules import Rules
from gpututor.cli.main import main
from gpututor.grading.journal import Entry, entries
from gpututor.grading.report import Outcome, Report, Status
from tests.unit.classroom.big_class import KINDS, SECRET, BigClass, big_class
from tests.unit.classroom.big_class_layouts import lay_out
from tests.unit.classroom.gradings import grading, kill_one_below, output_of, wait_for, written

FEW, MANY = 120, 300
KILLED_AFTER = 10, 30
"""Gradings, between one judge that is killed and the next."""
ALL_KILLED_EVERY = 3
"""Each time after so many judges, the whole is killed."""
Who = tuple[str, str, int]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> BigClass:
    return big_class(tmp_path_factory.mktemp("few") / "course", FEW)


def must_be_whole(found: Class, big: BigClass) -> None:
    """Each file is there, once, with what was in it, and as refused as it should be."""
    assert found.unmatched == ()
    read = {(one.student, one.exercise, one.attempt): bool(one.refusal) for one in found.handed_in}
    assert len(read) == len(found.handed_in) == len(big.submissions)
    assert read == {one.who: one.is_refused for one in big.submissions}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_file_is_found_in_every_layout(few: BigClass, layout: str, tmp_path: Path) -> None:
    found = read_class(lay_out(few, layout, tmp_path / "in"), few.course, ClassFolder(tmp_path / "out"))
    assert found.layout == layout
    must_be_whole(found, few)


def test_the_class_is_the_same_each_time_and_has_something_of_everything(few: BigClass, tmp_path: Path) -> None:
    again = big_class(tmp_path / "course", FEW)
    assert [(one.who, one.content) for one in again.submissions] == [(one.who, one.content) for one in few.submissions]
    assert again.zipped == few.zipped != frozenset()
    assert Counter(one.kind for one in few.submissions).keys() == KINDS.keys()
    assert any(one.attempt > 1 for one in few.submissions)


def reports(folder: ClassFolder) -> Iterator[tuple[Who, Report | None]]:
    for one, key, report in reports_of(folder):
        assert (report is None) is (key is None) is bool(one.refusal), one
        yield (one.student, one.exercise, one.attempt), report


def nothing_is_lost(folder: ClassFolder, big: BigClass) -> None:
    must_be_whole(folder.read_class(), big)
    assert troubles_of(folder) == {}
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
    with closing(sqlite3.connect(folder.gradebook)) as database:
        attempts = database.execute("select student, exercise, attempt from attempt").fetchall()
        marks = database.execute("select student, exercise from mark where attempts > 0").fetchall()
    assert sorted(attempts) == sorted(one.who for one in big.submissions)
    assert sorted(marks) == sorted({one.who[:2] for one in big.submissions})


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


def grade_and_kill(handed_in: Path, folder: ClassFolder, options: Sequence[str]) -> Counter[str]:
    """Until it is done. How many of what were killed."""
    chance, killed = random.Random(8), Counter[str]()
    while True:
        with grading(handed_in, folder, *options, "--resume") as process:
            for _ in range(ALL_KILLED_EVERY):
                # On with the next when some more are done: a machine that is slow is not killed to death.
                if not wait_for(process, folder, chance.randint(*KILLED_AFTER)):
                    assert process.returncode == 0, output_of(folder).read_text()
                    return killed
                killed["judges"] += kill_one_below(process, chance)
            process.kill()
            process.wait()
            killed["all"] += 1


@pytest.mark.long
@pytest.mark.isolation
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_whatever_is_killed_a_class_comes_to_the_same(tmp_path: Path) -> None:
    big = big_class(tmp_path / "course", MANY)
    secret = tmp_path / "class.secret"
    secret.write_text(f"{SECRET}\n")
    options = ["--course", str(big.course.folder), "--secret", str(secret), "--isolation", "bubblewrap"]
    undisturbed, disturbed = ClassFolder(tmp_path / "undisturbed"), ClassFolder(tmp_path / "disturbed")
    undisturbed.folder.mkdir()
    disturbed.folder.mkdir()

    with grading(lay_out(big, "folders", tmp_path / "in folders"), undisturbed, *options) as process:
        assert process.wait() == 0, output_of(undisturbed).read_text()
    killed = grade_and_kill(lay_out(big, "canvas", tmp_path / "as from canvas"), disturbed, options)

    assert killed["judges"] >= 6
    assert killed["all"] >= 2
    for folder in (undisturbed, disturbed):
        nothing_is_lost(folder, big)
        everything_comes_to_what_it_must(folder, big)
        the_gradebook_has_everything_once(folder, big)
    both_come_to_the_same(undisturbed, disturbed, big)
