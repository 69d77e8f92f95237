"""`results.json` for each student, as autograders write it for Gradescope: a test for each check of each exercise.

A student without a final total gets none: Gradescope would enter what there is as a mark. Hidden checks are tests that
students do not see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpututor.classroom.feedback import for_student, verdict_words
from gpututor.classroom.folder_names import folder_names
from gpututor.classroom.gradebook.canvas import title_of
from gpututor.classroom.gradebook.model import CheckMark, ExerciseSummary, Gradebook, Mark, Notice, StudentMarks
from gpututor.classroom.rules import Rules
from gpututor.grading.report import Status
from gpututor.grading.words import count
from gpututor.plain_text import visible


def gradescope(gradebook: Gradebook) -> tuple[dict[str, str | None], list[Notice]]:
    """The texts of the files by their places, `kim/results.json`; None where none must be. And who was left out."""
    names = folder_names(marks.student.id for marks in gradebook.students)
    files = {
        f"{names[marks.student.id]}/results.json": _text(gradebook, marks) if marks.final else None
        for marks in gradebook.students
    }
    notices = []
    if left := sum(text is None for text in files.values()):
        title = f"No results.json for {count(left, 'student')}: some of their marks are open."
        notices.append(Notice(title, "`gpututor classroom review` lists them."))
    return files, notices


def _text(gradebook: Gradebook, marks: StudentMarks) -> str:
    return json.dumps(_results(gradebook, marks), indent=1) + "\n"


def _results(gradebook: Gradebook, marks: StudentMarks) -> dict[str, Any]:
    tests = [
        test
        for exercise, mark in zip(gradebook.exercises, marks.marks, strict=True)
        for test in _tests(exercise, mark, gradebook.rules)
    ]
    words = [
        f"{title_of(exercise)}: {told}"
        for exercise, mark in zip(gradebook.exercises, marks.marks, strict=True)
        if (told := _words(mark, gradebook.rules))
    ]
    return {
        "score": marks.points,
        "output": visible("\n".join(words)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def _words(mark: Mark, rules: Rules) -> str:
    """What there is to say of an exercise as a whole."""
    parts = ["It does not count."] if mark.is_dropped else []
    counted = mark.counted
    if counted is not None:
        if len(mark.attempts) > 1:
            parts.append(f"Attempt {mark.attempts.index(counted) + 1} of {len(mark.attempts)} counts.")
        parts.append(counted.lateness.words)
        if counted.report is not None:
            parts.append(for_student(counted.report, rules, mark.exercise).note)
    return " ".join(filter(None, parts))


def _tests(exercise: ExerciseSummary, mark: Mark, rules: Rules) -> Iterator[dict[str, Any]]:
    title = title_of(exercise)
    counted = mark.counted
    if counted is None or not counted.checks:
        words = counted.reason if counted is not None else mark.reason
        yield _test(title, mark.points, mark.of, words, passed=mark.points >= mark.of)
        return
    shown = for_student(counted.report, rules, mark.exercise).verdicts if counted.report is not None else ()
    for check in counted.checks:
        told = [verdict_words(each) for each in shown if each.check == check.check]
        words = "\n\n".join(told) if told else f"{check.sentence}: {check.status}"
        yield _check_test(f"{title}: {check.check}", check, words)


def _check_test(name: str, check: CheckMark, words: str) -> dict[str, Any]:
    of = 0.0 if check.is_extra else check.of
    test = _test(name, check.points, of, words, passed=check.status is Status.PASSED)
    return {**test, "visibility": "hidden"} if check.is_hidden else test


def _test(name: str, score: float, most: float, words: str, *, passed: bool) -> dict[str, Any]:
    return {
        "name": visible(name),
        "score": score,
        "max_score": most,
        "status": "passed" if passed else "failed",
        "output": visible(words),
        "visibility": "visible",
    }
