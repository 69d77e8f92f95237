"""`classroom.toml`: valid rules are applied, and mistakes are reported with their lines."""

from __future__ import annotations

import contextlib
import re
import shutil
import tomllib
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpututor import paths
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import check_warnings
from gpututor.classroom.rules import (
    OWN,
    CheckDescriptions,
    ExerciseRules,
    Extension,
    LatePolicy,
    Rules,
    read_rules,
    rules_for,
)
from gpututor.errors import GradingError, UsageError
from gpututor.grading.description import CheckDescription
from tests.support import ROOT
from tests.support.classes import class_of
from tests.support.fake_judges import Describer
from tests.support.gradebooks import Upload, gradebook, points
from tests.support.shipped_course import COURSE

GUIDE = ROOT / "docs" / "classroom" / "rules.md"
SYNCS, COPY = "keep_the_data_moving/hidden_syncs", "keep_the_data_moving/one_big_copy"


def example() -> str:
    match = re.search(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    return match[1]


def rules(tmp_path: Path, text: str, exercises: tuple[str, ...] = (SYNCS, COPY)) -> Rules:
    path = tmp_path / "classroom.toml"
    path.write_text(text, encoding="utf-8")
    return read_rules(path, exercises, {"5.3": SYNCS})


def error_of(tmp_path: Path, text: str) -> str:
    """Return the error for rules with `text`, with FILE in place of the path."""
    with pytest.raises(UsageError) as raised:
        rules(tmp_path, text)
    return str(raised.value).replace(str(tmp_path / "classroom.toml"), "FILE")


def test_the_guides_example_is_valid(tmp_path: Path) -> None:
    rules_read = rules(tmp_path, example(), tuple(exercise.key for exercise in COURSE.exercises))
    assert rules_read.of(SYNCS).points == {"parity": 3, "syncs": 2}
    assert (rules_read.of(SYNCS).weight, rules_read.of(COPY).weight) == (2, 1)
    assert rules_read.due_for(COPY) == datetime(2026, 3, 1, 22, 59, tzinfo=UTC)
    assert rules_read.due_for(COPY, "kim") == datetime(2026, 3, 3, 22, 59, tzinfo=UTC)
    assert rules_read.due_for(SYNCS, "lee") == datetime(2026, 3, 20, 22, 59, tzinfo=UTC)
    assert rules_read.late == LatePolicy(10, "day", "earned", 15, 50, 168)
    assert (rules_read.hints_for(SYNCS), rules_read.hints_for(COPY)) == (2, 1)
    assert [rules_read.is_hidden(SYNCS, check) for check in ("syncs", "memory", "parity")] == [True, True, False]
    assert not rules_read.is_hidden(COPY, "syncs")
    with CheckDescriptions() as descriptions:
        known = {
            exercise.key: frozenset(OWN).union(check.name for check in descriptions.of(exercise))
            for exercise in COURSE.exercises
        }
    assert list(check_warnings(rules_read, known)) == []


def test_a_needed_check_is_known_and_not_hidden(tmp_path: Path) -> None:
    read = rules(tmp_path, f"needs = ['parity']\n[exercises.'{SYNCS}']\nneeds = []\n")
    assert (read.needs_of(SYNCS), read.needs_of(COPY)) == ((), ("parity",))
    for text, line in (
        ("\nneeds = ['a']\nhidden = ['a']\n", "line 2: needs: "),
        (f"needs = ['a']\n[exercises.'{SYNCS}']\nhidden = ['a']\n", f"line 3: exercises.'{SYNCS}'.hidden: "),
        (f"hidden = ['a']\n[exercises.'{SYNCS}']\nneeds = ['a']\n", f"line 3: exercises.'{SYNCS}'.needs: "),
        ("needs = ['a']\nhidden_until_due = ['a']\n", "line 1: needs: "),
        (f"hidden_until_due = ['a']\n[exercises.'{SYNCS}']\nneeds = ['a']\n", f"line 3: exercises.'{SYNCS}'.needs: "),
    ):
        assert f"FILE, {line}the check 'a' is hidden" in error_of(tmp_path, text)
    with pytest.raises(UsageError, match=r"needs: no check 'paritty'"):
        list(check_warnings(Rules(needs=("paritty",)), {SYNCS: frozenset({*OWN, "parity"})}))


def test_the_guides_have_every_key_and_an_empty_file_means_defaults(tmp_path: Path) -> None:
    document = tomllib.loads(example())
    ours = {"path", "text", "extensions"}
    assert document.keys() == {each.name for each in fields(Rules)} - ours | {"extension", "time_zone"}
    assert document["late"].keys() == {each.name for each in fields(LatePolicy)}
    assert set().union(*document["exercises"].values()) == {each.name for each in fields(ExerciseRules)}
    assert set().union(*document["extension"]) == {each.name for each in fields(Extension)}
    guide = GUIDE.with_name("README.md").read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert examples
    for text in examples:
        assert rules(tmp_path, text, tuple(exercise.key for exercise in COURSE.exercises)).late.per_cent == 10
    rules_read = rules(tmp_path, "")
    assert Rules(path=rules_read.path) == rules_read


@pytest.mark.parametrize(
    ("text", "line", "key", "named"),
    [
        ("attempts = 'bets'", 1, "attempts", "'best'"),
        ("\nhinst = 1", 2, "hinst", "'hints'"),
        ("[late]\nper_cent = 101", 2, "late.per_cent", "from 0 to 100"),
        (f'[exercises."{SYNCS}".points]\n\n parity = "3" # points', 3, f"exercises.'{SYNCS}'.points.parity", "'3'"),
        (f'exercises."{SYNCS}".points.runs = 1', 1, f"exercises.'{SYNCS}'.points.runs", ""),
        (f"[exercises.'{SYNCS[:-1]}']", 1, f"exercises.'{SYNCS[:-1]}'", SYNCS),
        ("hints = 1\ndrop = [\n  'keep_the_data_moving/big_copy',\n]", 2, "drop[0]", COPY),
        ("due = 2026-03-01T23:59:00", 1, "due", "time_zone"),
        ("due = 9999-12-31T23:59:00+01:00", 1, "due", "out of range"),
        ("due = 2026-03-01", 1, "due", "2026-03-01T23:59:00+01:00"),
        ("due = 23:59:00", 1, "due", "without a date"),
        ("[exercises.'5.3']", 1, "exercises.'5.3'", SYNCS),
        ("assigned = ['5.3']", 1, "assigned[0]", SYNCS),
        ("time_zone = 'Europe/Berlim'", 1, "time_zone", "'Europe/Berlin'"),
        ("[[extension]]\nstudent = 'kim'\nhours = 1\n[[extension]]\nstudent = 'lee'\n", 4, "extension[1]", "hours"),
        ("[[extension]]\nhours = 1", 1, "extension[0].student", "one line"),
        ("late = 3", 1, "late", "[late]"),
        ("scale = nan", 1, "scale", "nan"),
        ("\nslip_days = 2", 2, "slip_days", "per_cent"),
        ("slip_days = 1.5", 1, "slip_days", "whole number"),
        ("max_attempts = 0", 1, "max_attempts", "from 1"),
        ("leaderboard = 1", 1, "leaderboard", "true or false"),
    ],
)
def test_a_mistake_is_reported_with_line_and_key(tmp_path: Path, text: str, line: int, key: str, named: str) -> None:
    error = error_of(tmp_path, text)
    assert f"FILE, line {line}: {key}: " in error
    assert named in error


@pytest.mark.parametrize("date", ["2026-13-01T23:59:00+01:00", "2026-02-30T12:00:00Z", "2026-03-01 23:59"])
def test_a_date_that_does_not_exist_is_named_with_its_line(tmp_path: Path, date: str) -> None:
    error = error_of(tmp_path, f"hints = 1\ndue = {date} # the due date\n")
    assert error.startswith(f"FILE, line 2: {date} is not a valid date")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    lines = error_of(tmp_path, "hints = -1\n[late]\nper = 'week'\n").splitlines()
    assert [line.split(": ")[:2] for line in lines[:2]] == [["FILE, line 1", "hints"], ["FILE, line 3", "late.per"]]
    assert error_of(tmp_path, "a = 'b").startswith("FILE: ")


@pytest.mark.parametrize(("dated", "late"), [("", False), ("", True), (SYNCS, False), (COPY, False)])
def test_hours_of_an_extension_without_any_due_date_are_a_warning(tmp_path: Path, dated: str, late: bool) -> None:
    due = f"[exercises.'{dated}']\ndue = 2026-03-01T23:59:00Z\n" if dated else ""
    read = rules(tmp_path, f"{due}[[extension]]\nstudent = 'kim'\nexercise = '{COPY}'\nhours = 1\n")
    assert read.extensions == (Extension("kim", COPY, hours=1),)
    book = gradebook([Upload("kim", points(1, 1), COPY, late=late), Upload("kim", points(1, 1), SYNCS)], read)
    warned = [notice.title for notice in book.notices if "no due date for the extension of kim" in notice.title]
    assert bool(warned) == (dated != COPY and not late)


def test_rules_come_from_the_option_the_folder_or_the_defaults(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    assert rules_for(folder) == Rules()
    class_of(folder, [("kim", COPY, "a"), ("kim", "gone/exercise", "a")], COURSE.folder)
    folder.rules_file.write_text("hints = 3\ndrop = ['gone/exercise']\n")
    assert (rules_for(folder).hints, rules_for(folder).drop) == (3, ("gone/exercise",))
    other = tmp_path / "other.toml"
    with pytest.raises(UsageError):
        rules_for(folder, other)
    other.write_text("hints = 4")
    assert rules_for(folder, other).hints == 4


def test_each_version_of_an_exercise_is_described_once(tmp_path: Path, describer: type[Describer]) -> None:
    folder = tmp_path / "01_lesson" / "01_hidden_syncs"
    shutil.copytree(COURSE.find("hidden_syncs").folder, folder)
    exercise = replace(COURSE.find("hidden_syncs"), folder=folder)

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


def test_a_judge_that_cannot_start_is_tried_once(describer: type[Describer], monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(self: Describer, exercise_folder: str) -> tuple[CheckDescription, ...]:
        self.asked.append(exercise_folder)
        raise GradingError("The judge could not be started.")

    monkeypatch.setattr(describer, "describe", describe)
    with CheckDescriptions() as descriptions:
        assert {descriptions.of(exercise) for exercise in COURSE.exercises} == {()}
    assert len(describer.asked) == 1
    assert not paths.descriptions_folder().exists()


@given(st.text(st.sampled_from("attempts=[]\"'\n.late#1 \t"), max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_any_text_is_rules_or_a_usage_error(tmp_path: Path, text: str) -> None:
    with contextlib.suppress(UsageError):
        assert rules(tmp_path, text).text == text
