"""`results.json` for each student, as Gradescope's autograders write it: a test for each check of each exercise.

A student without a final total gets none, because Gradescope would enter provisional points as a mark. Students do not
see the tests of hidden checks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpututor.classroom.feedback import ShownCheck, StudentView, student_view
from gpututor.classroom.folder import folder_name
from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, left_over, write_text
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, GradebookWarning, Mark, StudentMarks
from gpututor.errors import UsageError
from gpututor.grading.report import Status
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars

_FILE_NAME = "results.json"


def gradescope(gradebook: Gradebook) -> tuple[dict[str, str | None], list[GradebookWarning]]:
    """Return texts by their paths, `kim/results.json`, with None for a student without a total; and warnings."""
    files = {
        f"{folder_name(marks.student.id)}/{_FILE_NAME}": (
            json.dumps(_results(gradebook, marks), indent=1) + "\n" if marks.final else None
        )
        for marks in gradebook.students
    }
    warnings = []
    if left := sum(text is None for text in files.values()):
        title = f"No results.json for {count(left, 'student')}: some of their marks are open."
        warnings.append(GradebookWarning(title, "`gpututor classroom review` lists them."))
    return files, warnings


def _results(gradebook: Gradebook, marks: StudentMarks) -> dict[str, Any]:
    tests, words = [], []
    for exercise, mark in zip(gradebook.exercises, marks.marks, strict=True):
        view = student_view(mark, exercise, gradebook.rules)
        tests += list(_tests(exercise, mark, view))
        words += [f"{exercise.numbered_title}: {' '.join(view.notes)}"] if view.notes else []
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


def _tests(exercise: ExerciseSummary, mark: Mark, view: StudentView) -> Iterator[dict[str, Any]]:
    title = exercise.numbered_title
    counted = mark.counted
    if mark.by_hand is not None:
        words = f"{mark.by_hand.why}\nThe mark of the checks: {mark.computed_word}"
        yield _test(f"{title}: mark by hand", mark.points, mark.of, words, passed=mark.points >= mark.of)
    elif counted is None or not counted.checks:
        yield _test(title, mark.points, mark.of, view.outcome, passed=mark.points >= mark.of)
    if counted is None:
        return
    shown = {check.check: check for check in view.checks}
    for check in counted.checks:
        of = 0.0 if check.is_extra else check.of
        visible = shown.get(check.check)
        words = _words(visible) if visible is not None else f"{check.sentence}: {check.status}"
        test = _test(f"{title}: {check.check}", check.points, of, words, passed=check.status is Status.PASSED)
        yield test if visible is not None else {**test, "visibility": "hidden"}


def _words(check: ShownCheck) -> str:
    parts = ["\n".join([f"{check.word}: {check.sentence}", *check.measured])]
    for finding in check.findings:
        lines = (
            ", ".join(finding.scenarios),
            f"Line {finding.line}" if finding.line is not None else "",
            f"Expected: {finding.expected}" if finding.expected else "",
            f"Got: {finding.got}" if finding.got else "",
            finding.why,
            finding.advice,
        )
        parts.append("\n".join(filter(None, lines)))
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
    files, warnings = gradescope(request.gradebook)
    for place, results in files.items():
        path = request.path / place
        if results is not None:
            write_text(path, results)
            continue
        try:
            path.unlink(missing_ok=True)  # an earlier report may have had a total
        except OSError as error:
            raise UsageError(f"{path}: cannot be removed ({error.strerror})", "Name another place.") from error
    yield from warnings
    students = [path.parent.name for path in request.path.glob(f"*/{_FILE_NAME}")]
    known = [place.partition("/")[0] for place in files]
    yield from left_over(request.path, students, known, _FILE_NAME, "give the folder to Gradescope")


GRADESCOPE = Export("gradescope", "a results.json for each student", "gradescope", _write, file_name=_FILE_NAME)
