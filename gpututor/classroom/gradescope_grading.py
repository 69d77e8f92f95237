"""Grading of one submission at Gradescope, in the folders of its autograder: `submission`, `source`, `results`."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpututor.classroom.executors import start_judge
from gpututor.classroom.executors.local import LocalExecutor, RealDevices, probe_devices, working_in_bubblewrap
from gpututor.classroom.feedback import SubmittedLines
from gpututor.classroom.folder import ClassFolder, locked, read_json, write_json
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports.gradescope import failed_results, results_of
from gpututor.classroom.gradebook.model import MarkStatus
from gpututor.classroom.gradescope_image import COURSE, RULES, SECRET, SETTINGS, ImageSettings
from gpututor.classroom.intake import read_class
from gpututor.classroom.intake.gradescope_metadata import as_utc
from gpututor.classroom.intake.layouts import METADATA
from gpututor.classroom.jobs import write_failures
from gpututor.classroom.plan import GradeOptions, merge_options, plan_grading
from gpututor.classroom.rules import Rules, read_rules
from gpututor.classroom.work_queue import WorkQueue
from gpututor.course.loader import load_course
from gpututor.course.model import Course, Exercise
from gpututor.errors import GradingError, NotGradableHere, UsageError
from gpututor.grading.client import IsolationName
from gpututor.json_dataclasses import read

_RESULTS = "results/results.json"


@dataclass(frozen=True)
class SubmissionMetadata:
    """The part of `submission_metadata.json` that counts for a mark."""

    name: str = ""
    email: str = ""
    created_at: str = ""
    """ISO 8601, UTC; empty if unknown."""
    due: datetime | None = None
    """Due date of the submission's students, with their extensions."""


def read_metadata(path: Path) -> SubmissionMetadata:
    """Read the metadata; a file without them is in time. Raises `UsageError` for a malformed file."""
    advice = "Gradescope writes this file; docs/classroom/gradescope.md shows what gpututor reads of it."
    return read_json(path, _metadata, advice) or SubmissionMetadata()


def _metadata(values: Any) -> SubmissionMetadata:
    if not isinstance(values, dict):
        raise ValueError("expected an object")
    users = [user for user in values.get("users") or () if isinstance(user, dict)]
    first = users[0] if users else {}
    usual = _due(values.get("assignment"))
    # A student with an extension has an assignment of their own. A group has the latest date of its students.
    dates = [_due(user.get("assignment")) or usual for user in users] or [usual]
    name, email = (str(first.get(key) or "") for key in ("name", "email"))
    return SubmissionMetadata(
        name, email, as_utc(str(values.get("created_at") or "")), max(filter(None, dates), default=None)
    )


def _due(assignment: object) -> datetime | None:
    text = assignment.get("due_date") if isinstance(assignment, dict) else None
    if text is None:
        return None
    if not (utc := as_utc(str(text))):
        raise ValueError(f"due_date: expected a time with a zone, not {str(text)[:60]!r}")
    return datetime.fromisoformat(utc)


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
    # Gradescope knows neither other assignments nor, here, other attempts.
    rules = replace(rules, assigned=settings.exercises, drop_lowest=0, slip_days=0)
    rules = _with_dates(rules, metadata.due)
    with tempfile.TemporaryDirectory(prefix="gpututor-") as work:
        submitted, folder = Path(work, "submitted"), ClassFolder(Path(work, "graded"))
        _as_export(root / "submission", submitted, metadata)
        if why := _grade(submitted, folder, course, source / SECRET, notify):
            data = failed_results(why)
        else:
            data = _results(folder, rules, course)
    results.parent.mkdir(parents=True, exist_ok=True)
    write_json(results, data)
    return results


def _with_dates(rules: Rules, due: datetime | None) -> Rules:
    """Return the rules with Gradescope's due date, which has the student's extension, if there is one."""
    if due is None:
        return rules
    exercises = {key: replace(own, due=None) for key, own in rules.exercises.items()}
    return replace(rules, due=due, exercises=MappingProxyType(exercises))


def _as_export(submission: Path, folder: Path, metadata: SubmissionMetadata) -> None:
    """Lay the submission out as in an export of the whole class. Links stay links, which intake refuses."""
    try:
        shutil.copytree(submission, folder / "submission_1", symlinks=True)
    except (OSError, shutil.Error) as error:
        raise GradingError(f"{submission} cannot be read: {error}", "Run the autograder again.") from error
    submitter = {":name": metadata.name or "student", ":email": metadata.email}
    submissions = {"submission_1": {":submitters": [submitter], ":created_at": metadata.created_at}}
    (folder / METADATA).write_text(json.dumps(submissions), encoding="utf-8")  # JSON is YAML, too


def _grade(submitted: Path, folder: ClassFolder, course: Course, secret: Path, notify: Callable[[str], None]) -> str:
    """Grade all files; return a sentence for the student if there is nothing to grade."""
    only = course.exercises[0] if len(course.exercises) == 1 else None
    isolation = _isolation(notify)
    with locked(folder):
        options, last = merge_options(GradeOptions(isolation=isolation, secret=secret), folder, course)
        try:
            class_ = read_class(submitted, course, folder, layout="gradescope", exercise=only)
        except UsageError as error:
            notify(str(error))
            return _expected(course.exercises)
        if not class_.handed_in:
            reasons = [f"{file.source.partition('/')[2]}: {file.why}" for file in class_.unmatched]
            return "\n".join([*reasons, _expected(course.exercises)])
        if all(each.refusal for each in class_.handed_in):
            return "\n".join(f"{each.source.partition('/')[2]}: {each.refusal}" for each in class_.handed_in)
        plan = plan_grading(options, last, class_, folder, course)
        work = WorkQueue(plan.jobs, plan.working)
        devices = RealDevices(plan.devices, partial(probe_devices, isolation))
        LocalExecutor(1, devices, partial(start_judge, isolation), notify).run(work)
        write_failures(folder, work.failures)
    return ""


def _isolation(notify: Callable[[str], None]) -> IsolationName:
    try:
        working_in_bubblewrap()
    except NotGradableHere as error:
        notify(f"{error.title} Graded without it: the submission could read what this container contains.")
        return "process"
    return "bubblewrap"


def _expected(exercises: tuple[Exercise, ...]) -> str:
    names = ", ".join(f"{exercise.slug}.py" for exercise in exercises)
    return f"No file was graded. Expected: {names}."


def _results(folder: ClassFolder, rules: Rules, course: Course) -> dict[str, Any]:
    gradebook = make_gradebook(folder, rules, course.folder)
    marks = gradebook.students[0]
    # A refused file is the student's to repair; all else without a mark is for the instructor.
    undecided = [mark for mark in marks.marks if mark.status in (MarkStatus.OPEN, MarkStatus.NOT_GRADED)]
    if undecided:
        reasons = "\n".join(f"{mark.exercise}: {mark.reason}" for mark in undecided)
        raise GradingError(f"There is no final mark, so no results.json.\n{reasons}", "Look at it, or run it again.")
    return results_of(gradebook, marks, SubmittedLines(folder))
