"""Regrading of one submission: to see what the devices do, or to check a doubtful result.

It uses the same seed, device and isolation again. The journal changes only if the instructor accepts the new result;
then the old one is backed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpututor.classroom.executors import NO_RESULTS
from gpututor.classroom.executors.local import RealDevices
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.history import HistoryEntry, HistoryEvent, add_entry, now
from gpututor.classroom.jobs import Job, Options, class_secret, jobs_of, secret_id
from gpututor.classroom.submissions import Submission
from gpututor.classroom.tables import number
from gpututor.classroom.variants import Variants
from gpututor.course.loader import load_course
from gpututor.errors import GradingError, UsageError
from gpututor.files import back_up
from gpututor.grading.events import GradeRequest
from gpututor.grading.journal import GradingKey, exercise_digest, grader_version, read_entry, write_entry
from gpututor.grading.report import Report
from gpututor.hardware.inventory import load_inventory, torch_version
from gpututor.hardware.scenario import ACCELERATORS


def regrade_job(folder: ClassFolder, submission: Submission, course_folder: Path | None = None) -> Job:
    """Return a job that grades a submission again. Raises `UsageError` if something that affects the result changed."""
    return regrade_jobs(folder, [submission], course_folder)[0]


def regrade_jobs(
    folder: ClassFolder, submissions: Sequence[Submission], course_folder: Path | None = None
) -> list[Job]:
    """Return jobs for `submissions` with the options of the last run. Raises `UsageError` if something changed."""
    options = Options.read(folder)
    class_ = folder.read_class()
    course = load_course(course_folder or Path(class_.course))
    if not folder.secret_file.exists():
        raise UsageError(f"{folder.secret_file} is missing.", "Restore it: another secret means other inputs.")
    secret = class_secret(folder.secret_file)
    values = {
        "gpututor": (options.gpututor, grader_version()),
        "PyTorch": (options.torch, torch_version()),
        "the class secret": (options.secret, secret_id(secret)),
    }
    variants = Variants(class_, course, folder)
    for submission in {(submission.exercise, submission.student): submission for submission in submissions}.values():
        key = options.key_of(submission)
        if key is None:
            if submission.refusal:
                raise UsageError(submission.refusal, "Ask the student for another file, then grade the class again.")
            raise UsageError("It is not graded.", "Grade the exercise with `gpututor classroom grade` first.")
        if all(exercise.key != key.exercise for exercise in course.exercises):
            title = f"The course no longer has the exercise {key.exercise}."
            raise UsageError(title, "Name another course with --course.")
        version = exercise_digest(variants.exercise_for(submission).folder)
        values[f"the files of the exercise {key.exercise}"] = (key.exercise_version, version)
    if changed := [name for name, (before, now) in values.items() if before != now]:
        advice = "Grade the class again with `gpututor classroom grade` and --resume."
        raise UsageError(f"Changed since the grading: {', '.join(changed)}.", advice)
    return jobs_of(replace(class_, submissions=tuple(submissions)), course, folder, options, secret)


def regrade_request(job: Job, recording: Path | None) -> GradeRequest:
    """Make a request without a journal. Raises `GradingError` for a lost file, `NotGradableHere` without the device."""
    kind = job.key.device.split()[0]
    accelerators = load_inventory().accelerators if kind in ACCELERATORS else ()
    with RealDevices(accelerators, dict).acquire(job) as device:
        request = job.request(device)
    return replace(request, key=None, journal=None, recording_folder=None if recording is None else str(recording))


def is_acceptable(report: Report) -> bool:
    """Return True if the report is about the submission, and not about a failed grading."""
    return report.outcome not in NO_RESULTS


def same_result(report: Report, other: Report) -> bool:
    """Return True if outcomes and checks of two reports are equal; times and words may differ."""
    statuses, others = (
        [(verdict.scenario, verdict.check, verdict.status) for verdict in side.verdicts] for side in (report, other)
    )
    return report.outcome == other.outcome and statuses == others


def accept_regrade(
    folder: ClassFolder, submission: Submission, key: GradingKey, report: Report, by: str, why: str = ""
) -> Path | None:
    """Replace the journal's report, and add it to the history; return the path of the old report's backup.

    After an `OSError` or `UsageError` the journal is unchanged.
    """
    path = key.file_in(folder.journal)
    before = report_before(folder, key)
    backup = back_up(path, folder.replaced) if path.exists() else None
    entry = HistoryEntry(
        event=HistoryEvent.REGRADED,
        student=submission.student,
        exercise=submission.exercise,
        by=by,
        why=why,
        at=now(),
        before=result_words(before) if before is not None else "",
        after=result_words(report),
        submission=submission.sha256,
    )
    added = add_entry(folder, entry)  # first, because a mark must not change without an entry
    try:
        write_entry(folder.journal, key, report)
    except OSError:
        path.unlink(missing_ok=True) if backup is None else backup.replace(path)
        added.unlink()
        raise
    return backup


def report_before(folder: ClassFolder, key: GradingKey) -> Report | None:
    """Return the report in the journal; None if there is none or its file is broken, which regrading repairs."""
    try:
        return read_entry(folder.journal, key)
    except GradingError:
        return None


def result_words(report: Report) -> str:
    """Return `failed, 2 of 4 points`, by the author's points."""
    return f"{report.outcome.value}, {number(report.points)} of {number(report.of)} points"
