"""The author's code: each fault is reported at its file and line, and checks are described as a grading shows them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gpututor.authoring.scaffold import make_exercise
from gpututor.classroom.rules import points_of
from gpututor.course.loader import load_course, load_exercise
from gpututor.errors import CourseError, GradingError
from gpututor.grading.client import GradingClient
from gpututor.grading.report import Outcome, Status
from gpututor.judge.author_code import describe, load_code
from gpututor.judge.author_tools import audit_exercise
from gpututor.judge.verdicts import LONGEST
from gpututor.paths import builtin_course
from tests.support.gradings import Grade
from tests.support.tiny_course import RIGHT

DRAW = "def draw(seed, case):\n    return {'number': seed}\n\n\n"
CHECKS = "import sys\nfrom gpututor.checks import parity, transfers, value\n\n\n"
VALUE = "checks = [value(expected)]\n"
PARITY = "checks = [parity(reference)]\n"


def given(code: str) -> tuple[str, str]:
    return "given.py", DRAW + code


def checks(code: str) -> tuple[str, str]:
    return "checks.py", CHECKS + code


def checks_with(line: str) -> tuple[str, str]:
    return checks(f"def expected(drawn, machine):\n    {line}\n\n\n{VALUE}")


BUILD = "def build(drawn, device):\n    "
IN_WORKER = "'gpututor.worker.service' in sys.modules"
BUILD_RAISES = given(f"{BUILD}return first_of(drawn)\n\n\ndef first_of(drawn):\n    return drawn['x']\n")
FAULTS = {
    "build raises": (*BUILD_RAISES, 10, "KeyError: 'x'"),
    "build ends": (*given(f"import sys\n{BUILD}sys.exit(3)\n"), 7, "SystemExit: 3"),
    "build returns a list": (*given(f"{BUILD}return [1]\n"), 5, "dict"),
    "build with one argument": (*given("def build(drawn):\n    return drawn\n"), 5, "build(drawn, device)"),
    "only in the worker": (*given(f"import sys\nif {IN_WORKER}:\n    sys.exit()\n"), 7, "SystemExit"),
    "draw with one argument": ("given.py", "def draw(seed):\n    return {}\n", 1, "draw(seed, case)"),
    "draw raises": ("given.py", "def draw(seed, case):\n    return {1 / 0: 1}\n", 2, "ZeroDivisionError"),
    "draw returns an object": ("given.py", "def draw(seed, case):\n    return {'x': [object()]}\n", 1, "'x.0'"),
    "draw returns a list": ("given.py", "def draw(seed, case):\n    return [1]\n", 1, "dict"),
    "checks end": (*checks("sys.exit()\n"), 5, "SystemExit"),
    "a check ends": (*checks_with("sys.exit()"), 6, "SystemExit"),
    "a check raises": (*checks_with("return drawn['x']"), 6, "KeyError: 'x'"),
    "a check with one argument": (*checks(f"def expected(drawn):\n    return 1\n\n\n{VALUE}"), 5, "(drawn, machine)"),
    "an amount raises": (*checks("checks = [transfers(to_device=lambda *_: {}['x'])]\n"), 5, "KeyError: 'x'"),
    "a reference of another name": (*checks(f"def reference(x):\n    return x\n\n\n{PARITY}"), 5, "(number)"),
    "a condition raises": (
        *checks("checks = [value(lambda *_: 1, on=lambda machine: machine.x)]\n"),
        5,
        "AttributeError",
    ),
    "wrong arguments": (*checks("checks = [parity(print, times=-1)]\n"), 5, "times=-1"),
}


@pytest.mark.parametrize(("file", "text", "line", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_reported_at_its_line(
    grade: Grade, exercise_folder: Path, file: str, text: str, line: int, words: str
) -> None:
    (exercise_folder / file).write_text(text)
    report = grade(RIGHT)
    first = report.reason.partition("\n")[0]
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert first.startswith(f"{exercise_folder / file}:{line}: ")
    assert words in first
    assert "gpututor/" not in report.reason.replace(str(exercise_folder), "")
    if text == BUILD_RAISES[1]:
        assert report.reason.splitlines()[-2:] == ["Called from:", "given.py:6 in build"]


def test_author_code_that_ends_the_worker_or_judge_is_named(grade: Grade, exercise_folder: Path) -> None:
    given = exercise_folder / "given.py"
    given.write_text(f"import os\n{DRAW}def build(drawn, device):\n    os._exit(3)\n")
    report = grade(RIGHT)
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert report.reason.startswith(f"{given}: ")
    (exercise_folder / "checks.py").write_text("import os\n\nos._exit(3)\n")
    with pytest.raises(GradingError) as broke:
        grade(RIGHT)
    assert str(exercise_folder) in broke.value.title
    assert "checks.py" in broke.value.advice


def test_a_description_agrees_with_the_report(client: GradingClient, exercise_folder: Path, grade: Grade) -> None:
    *checks, unmodified, races = client.describe(str(exercise_folder))
    report = grade("def twice(x):\n    return 2 * x\n", device="virtual")
    verdicts = {verdict.check: verdict for verdict in report.verdicts if verdict.of}
    assert {check.name: check.points for check in checks} == {name: each.of for name, each in verdicts.items()}
    for check in checks:
        assert verdicts[check.name].sentence in check.sentences
        assert not check.depends_on_device
    assert [(check.name, check.points) for check in (unmodified, races)] == [("unmodified", 0.0), ("races", 0.0)]


@pytest.mark.parametrize(
    "checks", ["import sys\nsys.exit()\n", "checks = []\n", "checks = [\n", "raise ValueError('no')\n"]
)
def test_broken_checks_do_not_harm_the_judge(client: GradingClient, exercise_folder: Path, checks: str) -> None:
    right = client.describe(str(exercise_folder))
    before = (exercise_folder / "checks.py").read_text()
    (exercise_folder / "checks.py").write_text(checks)
    with pytest.raises(CourseError, match=r"checks\.py"):
        client.describe(str(exercise_folder))
    with pytest.raises(CourseError):
        client.describe(str(exercise_folder / "gone"))
    (exercise_folder / "checks.py").write_text(before)
    assert client.describe(str(exercise_folder)) == right


LIMIT = "from gpututor.checks import speed, syncs, value\n\n\nchecks = [speed(1.25, real_at_most=1.5), {other}]\n"


@pytest.mark.parametrize(
    ("kind", "other", "is_possible"),
    [
        ("function", "value(lambda drawn, machine: 1)", True),
        ("function", "syncs(at_most=0)", False),
        ("script", "value(lambda drawn, machine: 1)", False),
    ],
)
def test_a_limit_that_no_real_device_can_judge_is_refused(
    exercise_folder: Path, kind: str, other: str, is_possible: bool
) -> None:
    (exercise_folder / "checks.py").write_text(LIMIT.format(other=other))
    manifest = exercise_folder / "exercise.toml"
    lines = [line for line in manifest.read_text().splitlines() if kind == "function" or not line.startswith("entry")]
    manifest.write_text("\n".join(lines).replace('kind = "function"', f'kind = "{kind}"'))
    code = load_exercise(exercise_folder)
    if is_possible:
        assert load_code(code).checks[0].speed is not None
    else:
        with pytest.raises(CourseError, match=r"checks\.py"):
            load_code(code)


def test_every_exercise_of_the_course_is_described() -> None:
    known = 0
    for exercise in load_course(builtin_course()).exercises:
        checks = describe(exercise.folder)
        assert len({check.name for check in checks}) == len(checks), exercise.key
        assert all(check.sentences or check.depends_on_device or check.points for check in checks), exercise.key
        points = points_of(checks)
        known += bool(points)
        assert not points or math.fsum(points.values()) > 0
    assert known >= 25


HEAD = "from gpututor.checks import value\nfrom gpututor.checks.model import Check, Finding\n\n\n"
NARROW = (
    f"{HEAD}def find(run):\n"
    "    for call in run.calls:\n"
    "        if call.output + 0 != 2 * call.drawn['number']:\n"
    "            return Finding('the double', 'another number')\n\n\n"
    "checks = [\n"
    "    Check('narrow', lambda _: 'It is the double', find),\n"
    "    value(lambda drawn, machine: 2 * drawn['number'], name='after').with_points(2),\n"
    "]\n"
)
LONG = "def twice(number):\n    return ['x' * 100] * 1000\n"


def test_a_check_that_breaks_needs_review_or_is_the_authors_fault(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(NARROW)
    report = grade("def twice(number):\n    return 'x'\n")
    narrow, after = report.verdicts[-2:]
    assert (narrow.status, after.status, report.of) == (Status.NEEDS_REVIEW, Status.FAILED, 3)
    assert "TypeError" in narrow.got
    assert report.outcome is Outcome.FAILED
    (exercise_folder / "checks.py").write_text(NARROW.replace("2 * drawn['number'], name='after'", "'x', name='after'"))
    report = grade("def twice(number):\n    return 'x'\n")
    assert (report.outcome, report.final) == (Outcome.NEEDS_REVIEW, False)
    (exercise_folder / "checks.py").write_text(NARROW.replace("call.output + 0", "call.output.values"))
    report = grade(RIGHT)
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert "AttributeError" in report.reason


def test_texts_of_verdicts_and_reasons_are_bounded(grade: Grade, exercise_folder: Path) -> None:
    words = "'y' * 10**6"
    (exercise_folder / "checks.py").write_text(
        f"{HEAD}def find(run):\n    return Finding({words}, str(run.calls[0].output), None, {words}, {words})\n\n\n"
        "checks = [Check('long', lambda _: 'It is short', find)]\n"
    )
    verdict = grade(LONG).verdicts[-1]
    assert {len(verdict.expected), len(verdict.got), len(verdict.why), len(verdict.advice)} == {LONGEST}
    (exercise_folder / "checks.py").write_text(f"raise ValueError({words})\n")
    assert len(grade(LONG).reason) == LONGEST


SEEDED = "torch.Generator().manual_seed(seed * 10 + case)"


@pytest.fixture(scope="module")
def exercise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_exercise(tmp_path_factory.mktemp("courses") / "course", "lesson/product").exercise


def audit_with(file: Path, old: str, new: str) -> dict[str, Any]:
    """Return the audit of the skeleton with another text in one of its files."""
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, new))
    try:
        return audit_exercise(file.parent)
    finally:
        file.write_text(before)


@pytest.mark.parametrize(
    ("old", "new", "unsteady", "fixed"),
    [
        (SEEDED, SEEDED, [], []),
        (SEEDED, "torch.Generator()", [], [0, 1, 2]),
        (SEEDED, "torch.Generator().manual_seed(case)", [], [0, 1, 2]),
        (SEEDED, "torch.Generator().manual_seed(seed if case else 1)", [], [0]),
        (f"chance = {SEEDED}", "chance = torch.Generator(); chance.seed()", [0, 1, 2], []),
        ("    return {", "    return {'seed': 7} if True else {", [], [0, 1, 2]),
        ("    return {", "    return {'index': seed if case == 1 else 0} if True else {", [], []),
        ("    return {", "    return {} if True else {", [], []),
    ],
    ids=["seeded", "unseeded", "case alone", "one case", "unsteady", "plain", "one plain value varies", "no inputs"],
)
def test_inputs_must_depend_on_the_seed_only(
    exercise: Path, old: str, new: str, unsteady: list[int], fixed: list[int]
) -> None:
    report = audit_with(exercise / "given.py", old, new)
    assert (report["unsteady"], report["fixed"]) == (unsteady, fixed)


def test_a_weak_tolerance_is_reported_once_with_its_case(exercise: Path) -> None:
    looser = "parity(reference, inside=torch.bfloat16, times=20.0,"
    weak = audit_with(exercise / "checks.py", "parity(reference,", looser)["weak"]
    kinds = [sentence.partition(" is only ")[0].partition(" would be ")[0] for sentence in weak]
    assert weak
    assert len(kinds) == len(set(kinds))
    assert all("Case " in sentence for sentence in weak if "times off" in sentence)
