"""`classroom.toml`: what it says is what holds, and what is wrong in it is told with its line."""

from __future__ import annotations

import contextlib
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpututor import paths
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.rules import (
    OWN,
    CheckDescriptions,
    ExerciseRules,
    Extension,
    LatePolicy,
    Rules,
    line_of,
    read_rules,
    rules_for,
    unknown_checks,
)
from gpututor.course.loader import load_course
from gpututor.course.model import Course
from gpututor.errors import GradingError, UsageError
from gpututor.grading.description import CheckDescription
from gpututor.paths import builtin_course
from tests.support import ROOT
from tests.support.classes import class_of
from tests.support.fake_judges import Describer

GUIDE = ROOT / "docs" / "classroom" / "rules.md"
SYNCS, COPY = "keep_the_data_moving/hidden_syncs", "keep_the_data_moving/one_big_copy"


@pytest.fixture(scope="module")
def course() -> Course:
    return load_course(builtin_course())


def example() -> str:
    found = re.search(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def rules(tmp_path: Path, text: str, exercises: tuple[str, ...] = (SYNCS, COPY)) -> Rules:
    path = tmp_path / "classroom.toml"
    path.write_text(text, encoding="utf-8")
    return read_rules(path, exercises)


def told(tmp_path: Path, text: str) -> str:
    """What is wrong with `text`, without the path."""
    with pytest.raises(UsageError) as raised:
        rules(tmp_path, text)
    return str(raised.value).replace(str(tmp_path / "classroom.toml"), "FILE")


def test_the_guides_example_is_read_and_names_only_checks_that_there_are(tmp_path: Path, course: Course) -> None:
    found = rules(tmp_path, example(), tuple(exercise.key for exercise in course.exercises))
    assert found.of(SYNCS).points == {"parity": 3, "syncs": 2}
    assert (found.of(SYNCS).weight, found.of(COPY).weight) == (2, 1)
    assert found.due_for(COPY) == datetime(2026, 3, 1, 22, 59, tzinfo=UTC)
    assert found.due_for(COPY, "kim") == datetime(2026, 3, 3, 22, 59, tzinfo=UTC)
    assert found.due_for(SYNCS, "lee") == datetime(2026, 3, 20, 22, 59, tzinfo=UTC)
    assert found.late == LatePolicy(10, "day", "earned", 15, 50, 168)
    assert (found.hints_for(SYNCS), found.hints_for(COPY)) == (2, 1)
    assert [found.is_hidden(SYNCS, check) for check in ("syncs", "memory", "parity")] == [True, True, False]
    assert not found.is_hidden(COPY, "syncs")
    with CheckDescriptions() as descriptions:
        known = {
            exercise.key: frozenset(OWN).union(check.name for check in descriptions.of(exercise))
            for exercise in course.exercises
        }
    assert list(unknown_checks(found, known)) == []


def test_the_guides_example_has_every_key_that_there_is() -> None:
    document = tomllib.loads(example())
    ours = {"path", "text", "extensions"}
    assert document.keys() == {each.name for each in fields(Rules)} - ours | {"extension", "time_zone"}
    assert document["late"].keys() == {each.name for each in fields(LatePolicy)}
    assert set().union(*document["exercises"].values()) == {each.name for each in fields(ExerciseRules)}
    assert set().union(*document["extension"]) == {each.name for each in fields(Extension)}


def test_the_guide_for_instructors_shows_rules_that_are_read(tmp_path: Path, course: Course) -> None:
    guide = GUIDE.with_name("README.md").read_text(encoding="utf-8")
    found = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert found
    for text in found:
        assert rules(tmp_path, text, tuple(exercise.key for exercise in course.exercises)).late.per_cent == 10


def test_an_empty_file_says_what_no_file_says(tmp_path: Path) -> None:
    found = rules(tmp_path, "")
    assert Rules(path=found.path) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attempts = 'bets'", "FILE, line 1: attempts: expected one of best, last, got 'bets'\nDid you mean 'best'?"),
        ("\nhinst = 1", "FILE, line 2: hinst: unknown key\nDid you mean 'hints'?"),
        ("[late]\nper_cent = 101", "FILE, line 2: late.per_cent: expected a number from 0 to 100, got 101"),
        (
            f'[exercises."{SYNCS}".points]\n\n parity = "3" # points',
            f"FILE, line 3: exercises.'{SYNCS}'.points.parity: expected a number from 0 to 10000, got '3'",
        ),
        (
            f'exercises."{SYNCS}".points.runs = 1',
            f"FILE, line 1: exercises.'{SYNCS}'.points.runs: the grader's own check is worth nothing\n"
            "Give points to checks of the exercise; `gpututor grade` names them.",
        ),
        (
            "[exercises.'keep_the_data_moving/hidden_sync']",
            f"FILE, line 1: exercises.'keep_the_data_moving/hidden_sync': unknown key\nDid you mean '{SYNCS}'?",
        ),
        (
            "hints = 1\ndrop = [\n  'keep_the_data_moving/big_copy',\n]",
            "FILE, line 2: drop[0]: there is no exercise 'keep_the_data_moving/big_copy' in this course\n"
            f"Did you mean '{COPY}'?",
        ),
        (
            "due = 2026-03-01T23:59:00",
            "FILE, line 1: due: it has no time zone\n"
            'Write it as 2026-03-01T23:59:00+01:00, or add time_zone = "Europe/Berlin" at the top.',
        ),
        (
            "due = 2026-03-01",
            "FILE, line 1: due: expected a date and a time without quotes, as 2026-03-01T23:59:00+01:00, "
            "got a date or a time",
        ),
        (
            "time_zone = 'Europe/Berlim'",
            "FILE, line 1: time_zone: there is no time zone 'Europe/Berlim' on this machine\n"
            "Did you mean 'Europe/Berlin'?",
        ),
        (
            "[[extension]]\nstudent = 'kim'\nhours = 1\n[[extension]]\nstudent = 'lee'\n",
            "FILE, line 4: extension[1]: expected either due or hours\nWrite the date, or how many hours more.\nFILE",
        ),
        ("[[extension]]\nhours = 1", "FILE, line 1: extension[0].student: missing; expected one line of text"),
        ("late = 3", "FILE, line 1: late: expected a table, written [late], got 3"),
        ("a = 'b", "FILE: not TOML"),
        ("scale = nan", "FILE, line 1: scale: expected a number from 0.01 to 10000, got nan"),
    ],
)
def test_a_mistake_is_told_with_its_line_its_key_and_what_was_expected(
    tmp_path: Path, text: str, expected: str
) -> None:
    found = told(tmp_path, text)
    for line in expected.split("\n"):
        assert line in found


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    found = told(tmp_path, "hints = -1\n[late]\nper = 'week'\n")
    assert found.startswith(
        "FILE, line 1: hints: expected a whole number from 0 to 100, got -1\nFILE, line 3: late.per:"
    )


def test_hours_more_than_no_date_are_a_mistake(tmp_path: Path) -> None:
    extension = f"[[extension]]\nstudent = 'kim'\nexercise = '{COPY}'\nhours = 1\n"
    assert "FILE, line 4: extension[0].hours: nothing is due that could be put off" in told(tmp_path, extension)
    dated = f"[exercises.'{SYNCS}']\ndue = 2026-03-01T23:59:00Z\n"
    assert "nothing is due" in told(tmp_path, dated + extension)
    assert rules(tmp_path, dated.replace(SYNCS, COPY) + extension).extensions == (Extension("kim", COPY, hours=1),)


def test_the_rules_of_a_class_are_those_in_its_folder_or_others_or_none(tmp_path: Path, course: Course) -> None:
    folder = ClassFolder(tmp_path / "class")
    assert rules_for(folder) == Rules()
    class_of(folder, [("kim", COPY, "a"), ("kim", "gone/exercise", "a")], course.folder)
    folder.rules_file.write_text("hints = 3\ndrop = ['gone/exercise']\n")
    assert (rules_for(folder).hints, rules_for(folder).drop) == (3, ("gone/exercise",))
    other = tmp_path / "other.toml"
    with pytest.raises(UsageError, match="the file is missing"):
        rules_for(folder, other)
    other.write_text("hints = 4")
    assert rules_for(folder, other).hints == 4


def test_an_exercise_is_described_once_for_each_of_its_versions(
    tmp_path: Path, course: Course, describer: type[Describer]
) -> None:
    folder = tmp_path / "01_lesson" / "01_hidden_syncs"
    shutil.copytree(course.find("hidden_syncs").folder, folder)
    exercise = replace(course.find("hidden_syncs"), folder=folder)

    def described() -> tuple[CheckDescription, ...]:
        with CheckDescriptions() as descriptions:
            return descriptions.of(exercise)

    assert {"parity", "syncs", "transfers"} <= {check.name for check in described()}
    assert described() == described()
    assert len(describer.asked) == 1
    for cached in paths.descriptions_folder().iterdir():
        cached.write_text('{"gpututor": "0", "checks": [')
    assert {"parity", "syncs", "transfers"} <= {check.name for check in described()}
    (folder / "checks.py").write_text("checks = 3\n")
    assert described() == ()
    assert len(describer.asked) == 3


def test_without_a_judge_nothing_is_known_and_it_is_asked_once(
    course: Course, describer: type[Describer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(self: Describer, exercise_folder: str) -> tuple[CheckDescription, ...]:
        self.asked.append(exercise_folder)
        raise GradingError("The judge could not be started.")

    monkeypatch.setattr(describer, "describe", describe)
    with CheckDescriptions() as descriptions:
        assert {descriptions.of(exercise) for exercise in course.exercises} == {()}
    assert len(describer.asked) == 1
    assert not paths.descriptions_folder().exists()


def _paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _paths(inner, (*path, position))


def test_every_key_of_the_example_is_found_in_its_line() -> None:
    text = example()
    lines = text.split("\n")
    for path in _paths(tomllib.loads(text)):
        number = line_of(text, path)
        assert number is not None, path
        name = next(str(part) for part in reversed(path) if isinstance(part, str))
        assert name in lines[number - 1]


@given(st.text(st.sampled_from("attempts=[]\"'\n.late#1 \t"), max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_any_text_is_rules_or_a_mistake(tmp_path: Path, text: str) -> None:
    with contextlib.suppress(UsageError):
        assert rules(tmp_path, text).text == text
