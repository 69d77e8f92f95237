"""What learners read: complete, of the right length, fit for a terminal of 80 columns, and true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.course.exercise import Exercise, Lesson
from tests.exercises import lesson_runner
from tests.exercises.courses import COURSE, EXERCISES, LESSONS, WRONG_SOLUTIONS, named_check

COLUMNS = 80
CODE_COLUMNS = 74
"""What the app shows of a line of code, beside its frame, in a terminal of 80 columns."""
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def prose_words(text: str) -> int:
    """Words outside of fenced blocks."""
    return len(FENCED.sub("", text).split())


def too_wide(text: str) -> list[str]:
    """Lines of code that the app would wrap, and lines of prose too wide for a plain terminal."""
    code = [line for block in FENCED.findall(text) for line in block.splitlines()]
    return [line for line in code if len(line) > CODE_COLUMNS] + [
        line for line in FENCED.sub("", text).splitlines() if len(line) > COLUMNS
    ]


def statements(source: str) -> list[str]:
    """The lines of code of a solution's functions, without their headings, docstrings and what runs it as a script."""
    functions = source.partition("\ndef ")[2].partition("\nif __name__")[0]
    code = re.sub(r'""".*?"""', "", functions, flags=re.DOTALL)
    return [line.strip() for line in code.splitlines() if line.startswith("    ") and line.strip()]


def test_the_course_has_no_mistakes() -> None:
    assert COURSE.problems == ()
    assert (COURSE.id, len(COURSE.lessons), len(COURSE.exercises)) == ("gpututor", 3, 10)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_three_hundred_to_nine_hundred_words(lesson: Lesson) -> None:
    assert prose_words(lesson.text) >= 300
    assert len(lesson.text.split()) <= 900


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_examples_a_trap_the_trace_and_what_to_remember(lesson: Lesson) -> None:
    headings = re.findall(r"^## (.*)$", lesson.text, re.MULTILINE)
    assert {"The trap", "See it in the trace", "Remember"} <= set(headings)
    assert lesson.text.count("```python\n") >= 3


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_task_has_eighty_to_two_hundred_words_names_the_function_and_says_how_it_is_graded(
    exercise: Exercise,
) -> None:
    assert 80 <= len(exercise.task.split()) <= 200
    assert f"{exercise.entry}(" in exercise.task
    assert "**Graded on**" in exercise.task


@pytest.mark.parametrize("exercise", EXERCISES)
def test_there_are_three_hints_or_more_and_none_is_the_solution(exercise: Exercise) -> None:
    assert len(exercise.hints) >= 3
    hints = "\n".join(exercise.hints)
    assert [line for line in statements(exercise.solution) if line not in hints]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_texts_of_an_exercise_fit_into_a_terminal(exercise: Exercise) -> None:
    assert too_wide(exercise.task) + too_wide("\n".join(exercise.hints)) == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_fits_into_a_terminal(lesson: Lesson) -> None:
    assert too_wide(lesson.text) == []


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_starter_defines_the_function_and_says_what_is_to_be_done(exercise: Exercise) -> None:
    assert f"def {exercise.entry}(" in exercise.starter
    assert "# TODO" in exercise.starter
    assert 'if __name__ == "__main__":' in exercise.starter


@pytest.mark.parametrize(("exercise", "path"), WRONG_SOLUTIONS)
def test_a_wrong_solution_names_its_check_and_its_mistake(exercise: Exercise, path: Path) -> None:
    second = path.read_text(encoding="utf-8").splitlines()[1]
    assert named_check(path).isidentifier()
    assert second.startswith("# ")
    assert second.endswith(".")


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_examples_of_a_lesson_run_on_the_virtual_gpu_and_print_what_it_says(lesson: Lesson) -> None:
    command = [sys.executable, "-I", lesson_runner.__file__, str(lesson.folder / "lesson.md")]
    child = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stderr
    results = json.loads(child.stdout)
    assert len(results) == lesson.text.count("```python\n")
    for result in results:
        if result["expected"] is not None:
            assert result["printed"] == result["expected"], f"{lesson.slug}, example at line {result['line']}"
