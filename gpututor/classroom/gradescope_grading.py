"""Grading of one submission on Gradescope, in the folders of its autograder: `submission`, `source`, `results`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from gpututor.classroom.executors import start_judge
from gpututor.classroom.executors.local import LocalExecutor, RealDevices, probe_devices, working_in_bubblewrap
from gpututor.classroom.feedback import SubmittedLines
from gpututor.classroom.folder import ClassFolder, locked, read_json, write_json
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports.gradescope import failed_results, results_of
from gpututor.classroom.gradebook.model import MarkStatus
from gpututor.classroom.gradescope_image import COURSE, ROSTER, RULES, SECRET, SETTINGS, ImageSettings
from gpututor.classroom.gradescope_submission import SubmissionMetadata, read_metadata, results_beyond_limit
from gpututor.classroom.intake import read_class
from gpututor.classroom.intake.layouts import METADATA
from gpututor.classroom.jobs import write_failures
from gpututor.classroom.plan import GradeOptions, merge_options, plan_grading
from gpututor.classroom.roster import enrol, folded, read_roster, roster_text
from gpututor.classroom.rules import Rules, read_rules
from gpututor.classroom.submissions import Class
from gpututor.classroom.work_queue import WorkQueue
from gpututor.course.loader import load_course
from gpututor.course.model import Course, Exercise
from gpututor.errors import GradingError, NotGradableHere, UsageError
from gpututor.files import write_atomically
from gpututor.grading.client import IsolationName
from gpututor.grading.report_text import count
from gpututor.json_dataclasses import read
from gpututor.translation import Catalog, catalog

_RESULTS = "results/results.json"


def grade_submission(root: Path, notify: Callable[[str], None]) -> Path:
    """Grade `root`/submission, write `root`/results/results.json, and return its path.

    Raises `GradingError` if there is no final mark: Gradescope then reports a failure, and the instructor sees why.
    """
    source, results = root / "source", root / _RESULTS
    settings = read_json(source / SETTINGS, lambda data: read(ImageSettings, data, ""), "Make the zip again.")
    if settings is None:
        raise UsageError(f"{source / SETTINGS} is missing.", "`gpututor classroom gradescope-image` makes the zip.")
    results.unlink(missing_ok=True)
    metadata = read_metadata(root / "submission_metadata.json")
    course = load_course(source / COURSE)
    rules = read_rules(source / RULES, settings.course) if (source / RULES).exists() else Rules()
    # Gradescope shows only this assignment, so all slip days count as unspent.
    rules = with_dates(replace(rules, assigned=settings.exercises, drop_lowest=0), metadata)
    say = catalog(rules.language, course.folder)
    limit = rules.max_attempts_for(rules.assigned[0])  # the same for all of them
    if limit is not None and metadata.attempt > limit:
        data = results_beyond_limit(metadata, limit, rules, say)
    else:
        notes = [f"Attempt {metadata.attempt} of at most {limit}."] if limit is not None else []
        data = _graded(root, course, rules, metadata, notes, say, notify)
    results.parent.mkdir(parents=True, exist_ok=True)
    write_json(results, data)
    return results


def _graded(
    root: Path,
    course: Course,
    rules: Rules,
    metadata: SubmissionMetadata,
    notes: list[str],
    say: Catalog,
    notify: Callable[[str], None],
) -> dict[str, Any]:
    """Grade the submission, and return its results with `notes` for the student."""
    with tempfile.TemporaryDirectory(prefix="gpututor-") as work:
        submitted, folder = Path(work, "submitted"), ClassFolder(Path(work, "graded"))
        _as_export(root / "submission", submitted, metadata)
        if why := _grade(submitted, folder, course, root / "source", metadata, notify):
            return failed_results("\n".join(map(say, [*notes, *why])))
        return _results(folder, rules, course, notes)


def with_dates(rules: Rules, metadata: SubmissionMetadata) -> Rules:
    """Return the rules for the assigned exercises with Gradescope's due date, which has the student's extension.

    Extensions in the rules count from the date without extensions, so that the later of both counts. The extension of
    each student of a group is the group's.
    """
    group = set(map(folded, metadata.addresses))
    named = (
        replace(extension, student=metadata.email) if folded(extension.student) in group else extension
        for extension in rules.extensions
    )
    rules = replace(rules, extensions=tuple(named))
    if metadata.due is None:
        return rules
    usual = _with_due(rules, metadata.usual_due) if metadata.usual_due is not None else rules
    extensions = (
        replace(extension, exercise=key, due=usual.due_for(key, extension.student), hours=0.0)
        for extension in rules.extensions
        for key in rules.assigned
        if extension.exercise in ("", key)
    )
    return replace(_with_due(rules, metadata.due), extensions=tuple(extensions))


def _with_due(rules: Rules, due: datetime) -> Rules:
    exercises = {key: replace(own, due=None) for key, own in rules.exercises.items()}
    return replace(rules, due=due, exercises=MappingProxyType(exercises))


def _as_export(submission: Path, folder: Path, metadata: SubmissionMetadata) -> None:
    """Copy the submission to `folder` in the layout of an export of a class. Links stay links, which intake rejects."""
    try:
        shutil.copytree(submission, folder / "submission_1", symlinks=True)
    except (OSError, shutil.Error) as error:
        raise GradingError(f"{submission} cannot be read: {error}", "Run the autograder again.") from error
    submitter = {":name": metadata.name or "student", ":email": metadata.email}
    submissions = {"submission_1": {":submitters": [submitter], ":created_at": metadata.created_at}}
    (folder / METADATA).write_text(yaml.safe_dump(submissions), encoding="utf-8")


def _grade(
    submitted: Path,
    folder: ClassFolder,
    course: Course,
    source: Path,
    metadata: SubmissionMetadata,
    notify: Callable[[str], None],
) -> list[str]:
    """Grade all files; return sentences for the student if nothing can be graded."""
    only = course.exercises[0] if len(course.exercises) == 1 else None
    isolation = _isolation(notify)
    with locked(folder):
        options, last = merge_options(GradeOptions(isolation=isolation, secret=source / SECRET), folder, course)
        try:
            class_ = read_class(submitted, course, folder, layout="gradescope", exercise=only)
        except UsageError as error:
            notify(str(error))
            return [_expected(course.exercises)]
        if not class_.submissions:
            reasons = [f"{file.source.partition('/')[2]}: {file.why}" for file in class_.unmatched]
            return [*reasons, _expected(course.exercises)]
        if all(submission.refusal for submission in class_.submissions):
            return [f"{submission.source.partition('/')[2]}: {submission.refusal}" for submission in class_.submissions]
        if why := _write_roster(class_, course, source / ROSTER, folder, metadata):
            notify(why)
            return [why]
        plan = plan_grading(options, last, class_, folder, course)
        work = WorkQueue(plan.jobs, plan.working)
        devices = RealDevices(plan.devices, partial(probe_devices, isolation))
        LocalExecutor(1, devices, partial(start_judge, isolation), notify).run(work)
        write_failures(folder, work.failures)
    return []


def _write_roster(
    class_: Class, course: Course, roster: Path, folder: ClassFolder, metadata: SubmissionMetadata
) -> str:
    """Write the student's row of the roster to the class's folder, if submitted exercises have variants.

    Return a sentence for the student if there is no such row.
    """
    submitted = {submission.exercise for submission in class_.submissions}
    varying = [exercise.label for exercise in course.exercises if exercise.variants and exercise.key in submitted]
    if not varying:
        return ""
    names = ", ".join(varying)
    if metadata.students > 1:
        return f"Each student has their own values of {names}, so no group can submit it. Submit it alone."
    people = read_roster(roster)
    id = enrol(class_, Rules(), people).roster_ids.get(class_.students[0].id)
    rows = [replace(student, extension_hours=0.0) for student in people.students if student.id == id]
    if not rows:
        student = metadata.email or metadata.name or "this student"
        words = f"Your own values of {names} are unknown, because this autograder's roster does not have {student}."
        return f"{words} Nothing was graded. Tell your instructor."
    write_atomically(folder.roster_file, roster_text(rows))
    return ""


def _isolation(notify: Callable[[str], None]) -> IsolationName:
    try:
        working_in_bubblewrap()
    except NotGradableHere as error:
        notify(f"{error.title} Graded without bubblewrap: the submission could read the files of this container.")
        return "process"
    return "bubblewrap"


def _expected(exercises: tuple[Exercise, ...]) -> str:
    names = ", ".join(f"{exercise.slug}.py" for exercise in exercises)
    return f"No file was graded. Expected: {names}."


def _results(folder: ClassFolder, rules: Rules, course: Course, notes: Sequence[str]) -> dict[str, Any]:
    gradebook = make_gradebook(folder, rules, course.folder, is_whole_course=False)
    marks = gradebook.students[0]
    # A rejected file is the student's to repair; all else without a mark is for the instructor.
    undecided = [mark for mark in marks.marks if mark.status in (MarkStatus.OPEN, MarkStatus.NOT_GRADED)]
    if undecided:
        reasons = "\n".join(f"{mark.exercise}: {mark.reason}" for mark in undecided)
        raise GradingError(f"There is no final mark, so no results.json.\n{reasons}", "Look at it, or run it again.")
    if marks.slip_days:
        notes = [
            *notes,
            f"These points are right if you still have {count(marks.slip_days, 'slip day')}.",
            "The gradebook counts slip days over all assignments: if you have fewer left, it takes a penalty off.",
        ]
    reports = (mark.counted.report for mark in marks.marks if mark.counted is not None)
    seconds = sum(report.elapsed_s for report in reports if report is not None)
    return {**results_of(gradebook, marks, SubmittedLines(folder), notes), "execution_time": round(seconds, 3)}
