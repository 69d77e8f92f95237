"""Making the gradebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.marking import (
    NOT_YET,
    GradedAttempt,
    attempt_of,
    mark_of,
    score_attempt,
    student_marks,
    summary,
)
from gpututor.classroom.gradebook.model import Attempt, ExerciseSummary, Gradebook, GradebookWarning, Mark
from gpututor.classroom.jobs import JobFailure, Options, troubles_of
from gpututor.classroom.rules import (
    OWN,
    CheckDescriptions,
    Describe,
    Rules,
    course_of,
    mistaken,
    points_of,
    unknown_checks,
)
from gpututor.classroom.submissions import Class, Submission
from gpututor.course.model import Exercise
from gpututor.errors import GradingError, UsageError
from gpututor.grading.journal import GradingKey, read_entry
from gpututor.grading.report import Report
from gpututor.toml_schema import Mistake, nearest

_BROKEN = "Its file in the journal is broken: move it away, then grade again with --resume."


def make_gradebook(folder: ClassFolder, rules: Rules, course_folder: Path | None = None) -> Gradebook:
    """Of what was handed in, the journal, and the rules: the same for the same, whenever it is made.

    `course_folder`: where the course is, if not where it was when the class was graded. Broken files of the journal
    are told in `notices`. Raises `UsageError` where no class was graded, and for rules that name checks which the
    exercises do not have.
    """
    class_ = folder.read_class()
    if course_folder is not None:
        class_ = replace(class_, course=str(course_folder))
    course = course_of(class_)
    graded, notices = _graded(folder, class_)
    exercises = {exercise.key: exercise for exercise in course.exercises} if course is not None else {}
    if course is None:
        advice = "Exercises are called by their keys. Put it back, or report with what there is."
        notices.append(GradebookWarning(f"The course is not in {class_.course} any more.", advice))
    with CheckDescriptions() as descriptions:
        return gradebook_of(class_, graded, rules, exercises, notices, descriptions.of)


def gradebook_of(
    class_: Class,
    graded: Mapping[Submission, GradedAttempt],
    rules: Rules,
    exercises: Mapping[str, Exercise],
    notices: Sequence[GradebookWarning] = (),
    describe: Describe = lambda exercise: (),
) -> Gradebook:
    """Make it of these.

    `graded`: what became of each file; `exercises`: of the course, in its order, as far as it is there; `describe` is
    asked where the reports do not tell of an exercise's checks.
    """
    known = _known_checks(class_, graded, rules, exercises, describe)
    told = [*notices, *_about_checks(rules, known), *_about_students(rules, class_)]
    assigned = rules.assigned or tuple(dict.fromkeys(one.exercise for one in class_.handed_in))
    order = [key for key in exercises if key in assigned] + sorted(set(assigned) - set(exercises))
    by_exercise = {key: _Handed([], []) for key in order}
    for one in class_.handed_in:
        if (handed := by_exercise.get(one.exercise)) is not None:
            handed.files.append(one)
            if one in graded and (report := graded[one].report) is not None:
                handed.reports.append(report)
    students = sorted(class_.students, key=lambda student: student.id)
    summaries, marks = [], {student.id: list[Mark]() for student in students}
    misplaced = class_.of_no_exercise()
    for key, handed in by_exercise.items():
        in_course = exercises.get(key)
        of = score_attempt(key, handed.reports, rules, partial(_authors_points, in_course, describe))
        attempts: dict[str, list[Attempt]] = {}
        for one in sorted(handed.files, key=lambda one: one.attempt):
            attempts.setdefault(one.student, []).append(attempt_of(one, graded.get(one, GradedAttempt()), of, rules))
        here = [
            mark_of(student.id, attempts.get(student.id, ()), of, rules, misplaced.get(student.id, ()))
            for student in students
        ]
        for mark in here:
            marks[mark.student].append(mark)
        label, title = (in_course.label, in_course.title) if in_course is not None else ("", key)
        summaries.append(summary(label, title, here, of, rules))
    everyone = tuple(student_marks(student, marks[student.id], rules) for student in students)
    told += _about_exercises(rules, class_, summaries)
    return Gradebook(class_, rules, tuple(summaries), everyone, tuple(told))


def _authors_points(exercise: Exercise | None, describe: Describe) -> dict[str, float]:
    return points_of(describe(exercise)) if exercise is not None else {}


class _Handed(NamedTuple):
    """For one exercise."""

    files: list[Submission]
    reports: list[Report]


def _graded(folder: ClassFolder, class_: Class) -> tuple[dict[Submission, GradedAttempt], list[GradebookWarning]]:
    """What the journal has on each file; the same text is read once. Broken files of the journal are told."""
    options = Options.read(folder)
    found: dict[GradingKey, GradedAttempt] = {}
    graded: dict[Submission, GradedAttempt] = {}
    notices = []
    troubles: dict[GradingKey, JobFailure] = {}
    try:
        troubles = troubles_of(folder)
    except UsageError as error:  # it only says why there is no report
        notices.append(GradebookWarning(error.title, error.advice))
    for one in class_.handed_in:
        key = options.key_of(one)
        if key is None:
            continue
        if key not in found:
            problem = f"It could not be graded: {troubles[key].why}" if key in troubles else NOT_YET
            try:
                found[key] = GradedAttempt(key, read_entry(folder.journal, key), problem)
            except GradingError as error:
                notices.append(GradebookWarning(error.title, error.advice))
                found[key] = GradedAttempt(key, None, _BROKEN)
        graded[one] = found[key]
    return graded, notices


def _known_checks(
    class_: Class,
    graded: Mapping[Submission, GradedAttempt],
    rules: Rules,
    exercises: Mapping[str, Exercise],
    describe: Describe,
) -> dict[str, frozenset[str]]:
    """The names of checks: of reports, and of the exercises of which rules name others."""
    known: dict[str, set[str]] = {}
    for one in class_.handed_in:
        if one in graded and (report := graded[one].report) is not None:
            known.setdefault(one.exercise, set()).update(verdict.check for verdict in report.verdicts)
    is_met = set(rules.hidden) <= set(OWN).union(*known.values())
    for key in rules.exercises if is_met else exercises:  # what is hidden everywhere, any exercise may have
        names = known.setdefault(key, set())
        names.update(OWN)
        if key in exercises and not (is_met and rules.exercises[key].named_checks <= names):
            names.update(check.name for check in describe(exercises[key]))
    return {key: frozenset(names) for key, names in known.items()}


def _about_checks(rules: Rules, known: Mapping[str, frozenset[str]]) -> Iterator[GradebookWarning]:
    """Rules for checks of which nothing is known yet. Raises `UsageError` for those that cannot be."""
    mistakes = []
    for unknown in unknown_checks(rules, known):
        where = ".".join(f"'{part}'" if "/" in part else part for part in unknown.key)
        what = f"the exercise has no check {unknown.check!r}" if len(unknown.key) > 1 else f"no check {unknown.check!r}"
        if unknown.is_certain:
            mistakes.append(Mistake(where, what, unknown.advice))
        else:
            yield GradebookWarning(f"{where}: whether there is a check {unknown.check!r} is not known.", unknown.advice)
    if mistakes:
        raise mistaken(rules.path or Path("the rules"), rules.text, mistakes)


def _about_students(rules: Rules, class_: Class) -> Iterator[GradebookWarning]:
    ids = [student.id for student in class_.students]
    for position, extension in enumerate(rules.extensions):
        if extension.student not in ids:
            title = f"extension[{position}].student: nobody called {extension.student!r} handed anything in."
            yield GradebookWarning(title, nearest(extension.student, ids) if ids else "")


def _about_exercises(rules: Rules, class_: Class, summaries: Sequence[ExerciseSummary]) -> Iterator[GradebookWarning]:
    others = {one.exercise for one in class_.handed_in} - {each.exercise for each in summaries}
    if others:
        title = f"Handed in, and not assigned: {', '.join(sorted(others))}."
        yield GradebookWarning(title, "Add them to `assigned` in the rules if they are to be counted.")
    for each in summaries:
        if not each.handed_in:
            yield GradebookWarning(
                f"{each.exercise} is assigned, and nobody handed it in.", "Everybody has nothing for it."
            )
