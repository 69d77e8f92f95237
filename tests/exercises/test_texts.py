"""Texts for learners pass the author's gate, and the examples of lessons print what they show."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from gpututor.app.commands import Pane
from gpututor.app.widgets.markdown import CourseText
from gpututor.authoring.lint import arguments_of, exercise_problems, lesson_problems
from gpututor.authoring.pool import JudgePool
from gpututor.authoring.verify import example_problems
from gpututor.course.loader import load_course
from gpututor.course.model import Exercise, Lesson
from gpututor.paths import builtin_course
from tests.support import ROOT
from tests.support.apps import AppEnv, main_screen, until
from tests.support.shipped_course import COURSE, EXERCISES, LESSONS, SOME_LESSONS


def test_the_course_has_no_mistakes() -> None:
    assert COURSE.problems == ()
    assert (COURSE.id, len(COURSE.lessons)) == ("gpututor", 14)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"fourteen lessons with {len(COURSE.exercises)} exercises" in readme
    for exercise in COURSE.exercises:
        assert "difficulty" in exercise.file("exercise.toml")
        assert exercise.timeline.endswith("."), exercise.label


WORDS_A_MINUTE = 200


def test_the_core_path_takes_three_hours_and_one_for_reading() -> None:
    core = [COURSE.find(slug) for slug in COURSE.learning_path("core").exercises]
    assert len(core) == 15
    assert {needed for exercise in core for needed in exercise.prerequisites} <= {exercise.slug for exercise in core}
    lessons = {exercise.lesson_slug: COURSE.lesson_of(exercise) for exercise in core}
    assert abs(sum(exercise.minutes for exercise in core) - 180) <= 5
    assert 45 <= sum(len(lesson.text.split()) for lesson in lessons.values()) / WORDS_A_MINUTE <= 60


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_exercise_has_the_form_that_the_gate_asks_for(exercise: Exercise) -> None:
    assert [fault.title(COURSE.folder) for fault in exercise_problems(exercise, COURSE)] == []


TOO_LONG: dict[str, int] = {}
"""Exercises whose task needs more rows than one screen has, and how many. Shorten a task rather than add it."""


async def test_a_task_fits_one_screen_of_80_x_24(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    too_long = {}
    async with AppEnv(tmp_path, COURSE).start((80, 24)) as pilot:
        screen, reader = main_screen(pilot), main_screen(pilot).panes.reader
        text = reader.query_one(CourseText)
        for exercise in COURSE.exercises:
            screen.navigator.open_exercise(exercise, Pane.TASK)
            await until(pilot, lambda: text.display and text.source == reader.text, exercise.label)
            await pilot.pause()
            rows = max(block.region.bottom for block in text.children) - text.region.y
            if rows > reader.size.height:
                too_long[exercise.label] = rows
    assert too_long == TOO_LONG


SIGNATURE = re.compile(r"(?:^    def |`)(\w+)\(((?:[a-z][^()`]*)?)\)", re.MULTILINE)
"""A function's name and arguments, in a line of code or in a sentence."""


def test_a_task_shows_the_signature_of_its_function() -> None:
    for exercise in COURSE.exercises:
        shown = dict(reversed(SIGNATURE.findall(exercise.task)))
        if exercise.kind != "script":
            assert exercise.entry in shown, exercise.label
            (function,) = ast.parse(f"def f({shown[exercise.entry]}): ...").body
            assert isinstance(function, ast.FunctionDef)
            arguments = tuple(argument.arg for argument in function.args.args)
            assert arguments == arguments_of(exercise.starter, exercise.entry), exercise.label


CODE = re.compile(r"[A-Za-z_][\w.]*\(|\w+=[\w.]+|[a-z_]+\.[a-z_.]+[a-z_]")
"""A call, a keyword with its value, or a dotted name."""


@pytest.mark.parametrize("exercise", EXERCISES)
def test_no_advice_shows_code_that_only_the_last_hint_shows(exercise: Exercise) -> None:
    *earlier, last = ("".join(text.split()) for text in exercise.hints)
    known = "".join("".join([exercise.task, exercise.starter, *earlier]).split())
    course_checks = ModuleType("checks")
    exec(compile(exercise.checks, "checks.py", "exec"), course_checks.__dict__)
    given_away = {
        (check.name, code)
        for check in course_checks.checks
        for code in CODE.findall(check.advice)
        if code in last and code not in known
    }
    assert given_away == set()


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_the_form_that_the_gate_asks_for(lesson: Lesson) -> None:
    assert [fault.title(COURSE.folder) for fault in lesson_problems(lesson, COURSE)] == []


@pytest.mark.parametrize("lesson", SOME_LESSONS)
def test_a_lessons_examples_run_on_the_virtual_gpu_and_print_its_text(lesson: Lesson, station: JudgePool) -> None:
    for package in set.intersection(*(set(exercise.packages) for exercise in lesson.exercises)):
        pytest.importorskip(package)
    assert [(fault.title(COURSE.folder), fault.details) for fault in example_problems(lesson, station)] == []


def docstrings(source: str) -> dict[str, str | None]:
    """Return the docstring of each function and class by its name."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {
        node.name: ast.get_docstring(node, clean=False)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds)
    }


def test_starter_and_solution_have_the_same_docstrings() -> None:
    exercises = load_course(builtin_course()).exercises
    assert exercises
    for exercise in exercises:
        starter, solution = docstrings(exercise.starter), docstrings(exercise.solution)
        both = starter.keys() & solution.keys()
        assert {name: starter[name] for name in both} == {name: solution[name] for name in both}, exercise.key
