"""`results.json` for each student, as Gradescope's autograders write it: a test for each check of each exercise.

A student without a final total gets none, because Gradescope would enter provisional points as a mark. Students do not
see the tests of hidden checks, and those of `hidden_until_due`, or held back by them, only after the due date. The
leaderboard has the ratio of times at each exercise with a check of speed, if the submission passed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpututor.classroom.feedback import (
    ShownCheck,
    StudentView,
    SubmittedLines,
    checks_before_due,
    slip_days_for_student,
    student_view,
    translated,
)
from gpututor.classroom.folder import folder_name
from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, left_over, write_text
from gpututor.classroom.gradebook.leaderboard import times_of
from gpututor.classroom.gradebook.model import ExerciseSummary, Gradebook, GradebookWarning, Mark, StudentMarks
from gpututor.classroom.rules import Rules
from gpututor.errors import UsageError
from gpututor.grading.report import Status
from gpututor.grading.report_text import count
from gpututor.text import escape_control_chars
from gpututor.translation import Catalog, catalog

_FILE_NAME = "results.json"


def gradescope(
    gradebook: Gradebook, lines: SubmittedLines | None = None
) -> tuple[dict[str, str | None], list[GradebookWarning]]:
    """Return texts by their paths, `kim/results.json`, with None for a student without a total; and warnings.

    `lines`: the submitted texts, for places in notebooks.
    """
    files = {
        f"{folder_name(marks.student.id)}/{_FILE_NAME}": (
            json.dumps(results_of(gradebook, marks, lines), indent=1) + "\n" if marks.final else None
        )
        for marks in gradebook.students
    }
    warnings = []
    if left := sum(text is None for text in files.values()):
        title = f"No results.json for {count(left, 'student')}: some of their marks are open."
        warnings.append(GradebookWarning(title, "`gpututor classroom review` lists them."))
    return files, warnings


def results_of(
    gradebook: Gradebook, marks: StudentMarks, lines: SubmittedLines | None = None, notes: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the results of a student whose marks are final or rejected.

    `notes`: sentences for the student before those on the exercises; None for the number of slip days.
    """
    tests: list[dict[str, Any]] = []
    leaderboard: list[dict[str, Any]] = []
    say = catalog(gradebook.rules.language, Path(gradebook.class_.course))
    words = list(filter(None, map(say, [slip_days_for_student(gradebook, marks)] if notes is None else notes)))
    for exercise, mark in zip(gradebook.exercises, marks.marks, strict=True):
        view = translated(student_view(mark, exercise, gradebook.rules), say)
        tests += list(_tests(exercise, mark, view, gradebook.rules, lines, say))
        words += [f"{exercise.numbered_title}: {' '.join(view.notes)}"] if view.notes else []
        leaderboard += _leaderboard(exercise, mark, gradebook.rules)
    return {
        **_texts("\n".join(words)),
        "score": marks.points,
        "tests": tests,
        **({"leaderboard": leaderboard} if leaderboard else {}),
    }


def failed_results(words: str) -> dict[str, Any]:
    """Return results without points, and the reason for the student."""
    return {**_texts(words), "score": 0.0, "tests": []}


def _texts(output: str) -> dict[str, Any]:
    return {
        "output": escape_control_chars(output),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
    }


def _leaderboard(exercise: ExerciseSummary, mark: Mark, rules: Rules) -> Iterator[dict[str, Any]]:
    """Yield a column for each kind of time, because a modelled time is not comparable with a measured one."""
    for timed, ratio in times_of(mark, rules).items():
        name = f"{exercise.label or exercise.title} time ratio, {timed.words}"
        yield {"name": escape_control_chars(name), "value": ratio, "order": "asc"}


def _tests(
    exercise: ExerciseSummary,
    mark: Mark,
    view: StudentView,
    rules: Rules,
    lines: SubmittedLines | None,
    say: Catalog,
) -> Iterator[dict[str, Any]]:
    title = exercise.numbered_title
    counted = mark.counted
    if mark.by_hand is not None:
        words = f"{mark.by_hand.why}\nThe mark of the checks: {mark.computed_word}"
        test = _test(f"{title}: mark by hand", mark.points, mark.of, words, passed=mark.points >= mark.of)
        yield {**test, "tags": [exercise.exercise]}
    elif counted is None or not counted.checks:
        test = _test(title, mark.points, mark.of, view.outcome, passed=mark.points >= mark.of)
        yield {**test, "tags": [exercise.exercise]}
    if counted is None:
        return
    shown = {check.check: check for check in view.checks}
    before_due = checks_before_due(counted.report, exercise.exercise, rules)
    for check in counted.checks:
        of = 0.0 if check.is_extra else check.of
        visible = shown.get(check.check)
        words = (
            _words(visible, counted.submission.sha256, lines, say)
            if visible is not None
            else f"{check.sentence}: {check.status}"
        )
        test = _test(f"{title}: {check.check}", check.points, of, words, passed=check.status is Status.PASSED)
        test["tags"] = [exercise.exercise, check.check]
        if visible is None:
            test["visibility"] = "hidden"
        elif check.check not in before_due:
            test["visibility"] = "after_due_date"
        yield test


def _words(check: ShownCheck, sha256: str, submitted: SubmittedLines | None, say: Catalog) -> str:
    parts = ["\n".join([f"{check.word}: {check.sentence}", *check.measured])]
    for finding in check.findings:
        line = finding.line
        place = submitted.place(sha256, line) if submitted is not None and line is not None else line
        lines = (
            ", ".join(finding.scenarios),
            say(f"Line {place}") if line is not None else "",
            f"{say('Expected')}: {finding.expected}" if finding.expected else "",
            f"{say('Got')}: {finding.got}" if finding.got else "",
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
    files, warnings = gradescope(request.gradebook, SubmittedLines(request.folder, request.gradebook.without_names))
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


GRADESCOPE = Export(
    option="gradescope",
    help="a results.json for each student",
    place="gradescope",
    write=_write,
    file_name=_FILE_NAME,
    needs_names=True,
)
