"""`results.json` for each student, as autograders write it for Gradescope: a test for each check of each exercise.

A student without a final total gets none: Gradescope would enter what there is as a mark. Hidden checks are tests that
students do not see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpututor.classroom.feedback import ShownCheck, StudentView, student_view
from gpututor.classroom.folder import folder_names
from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, left_over, remove, write_text
from gpututor.classroom.gradebook.model import (
    CheckMark,
    ExerciseSummary,
    Gradebook,
    GradebookWarning,
    Mark,
    StudentMarks,
)
from gpututor.grading.report import Status
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

_FILE_NAME = "results.json"


def gradescope(gradebook: Gradebook) -> tuple[dict[str, str | None], list[GradebookWarning]]:
    """The texts of the files by their places, `kim/results.json`; None where none must be. And who was left out."""
    names = folder_names(marks.student.id for marks in gradebook.students)
    files = {
        f"{names[marks.student.id]}/{_FILE_NAME}": _text(gradebook, marks) if marks.final else None
        for marks in gradebook.students
    }
    notices = []
    if left := sum(text is None for text in files.values()):
        title = f"No results.json for {count(left, 'student')}: some of their marks are open."
        notices.append(GradebookWarning(title, "`gpututor classroom review` lists them."))
    return files, notices


def _text(gradebook: Gradebook, marks: StudentMarks) -> str:
    return json.dumps(_results(gradebook, marks), indent=1) + "\n"


def _results(gradebook: Gradebook, marks: StudentMarks) -> dict[str, Any]:
    tests, words = [], []
    for exercise, mark in zip(gradebook.exercises, marks.marks, strict=True):
        told = student_view(mark, exercise, gradebook.rules)
        tests += list(_tests(exercise, mark, told))
        words += [f"{exercise.numbered_title}: {' '.join(told.notes)}"] if told.notes else []
    return {
        "score": marks.points,
        "output": escape_control_chars("\n".join(words)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def _tests(exercise: ExerciseSummary, mark: Mark, told: StudentView) -> Iterator[dict[str, Any]]:
    title = exercise.numbered_title
    counted = mark.counted
    if counted is None or not counted.checks:
        yield _test(title, mark.points, mark.of, told.outcome, passed=mark.points >= mark.of)
        return
    shown = {check.check: check for check in told.checks}
    for check in counted.checks:
        yield _check_test(f"{title}: {check.check}", check, shown.get(check.check))


def _check_test(name: str, check: CheckMark, shown: ShownCheck | None) -> dict[str, Any]:
    """Of a check that students are not told of, the instructor is told little more than whether it passed."""
    of = 0.0 if check.is_extra else check.of
    words = _words(shown) if shown is not None else f"{check.sentence}: {check.status}"
    test = _test(name, check.points, of, words, passed=check.status is Status.PASSED)
    return test if shown is not None else {**test, "visibility": "hidden"}


def _words(check: ShownCheck) -> str:
    parts = ["\n".join([f"{check.word}: {check.sentence}", *check.measured])]
    for each in check.findings:
        where = f"Line {each.line}" if each.line is not None else ""
        expected = f"Expected: {each.expected}" if each.expected else ""
        got = f"Got: {each.got}" if each.got else ""
        parts.append("\n".join(filter(None, (", ".join(each.scenarios), where, expected, got, each.why, each.advice))))
    return "\n\n".join(parts)


def _test(name: str, score: float, most: float, words: str, *, passed: bool) -> dict[str, Any]:
    return {
        "name": escape_control_chars(name),
        "score": score,
        "max_score": most,
        "status": "passed" if passed else "failed",
        "output": escape_control_chars(words),
        "visibility": "visible",
    }


def _write(request: ExportRequest) -> Iterator[GradebookWarning]:
    files, notices = gradescope(request.gradebook)
    for place, results in files.items():
        if results is not None:
            write_text(request.path / place, results)
        else:  # an earlier report may have had a mark
            remove(request.path / place)
    yield from notices
    students = [path.parent.name for path in request.path.glob(f"*/{_FILE_NAME}")]
    known = [place.partition("/")[0] for place in files]
    yield from left_over(request.path, students, known, _FILE_NAME, "give the folder to Gradescope")


GRADESCOPE = Export(
    option="gradescope",
    help="a results.json for each student",
    place="gradescope",
    write=_write,
    file_name=_FILE_NAME,
)
