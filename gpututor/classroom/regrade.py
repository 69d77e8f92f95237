"""Grading one submission of a class once more: to see what the devices do, or because its result is doubted.

It is graded as it was: with the same seed, on the same device, in the same isolation. The journal is not touched,
unless an instructor takes the new result in the place of the old one, which is kept.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpututor import __version__
from gpututor.classroom.executors import NO_RESULTS
from gpututor.classroom.executors.local import RealDevices
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import Job, Options, class_secret, jobs_of, secret_id
from gpututor.classroom.submissions import Submission
from gpututor.course.loader import load_course
from gpututor.errors import UsageError
from gpututor.files import back_up
from gpututor.grading.events import GradeRequest
from gpututor.grading.journal import GradingKey, exercise_digest, write_entry
from gpututor.grading.report import Report
from gpututor.hardware.inventory import load_inventory, torch_version
from gpututor.hardware.scenario import ACCELERATORS

_GRADE_ANEW = "`gpututor classroom grade` with --resume grades the class as things are now."


def job_again(folder: ClassFolder, one: Submission, course_folder: Path | None = None) -> Job:
    """The grading of a file, as it was or would be done.

    Raises `UsageError` where it would be another one by now, since something that it depends on has changed.
    """
    options = Options.read(folder)
    key = options.key_of(one)
    if key is None:
        raise UsageError(one.refusal or "It is not graded.", "")
    class_ = folder.read_class()
    course = load_course(course_folder or Path(class_.course))
    exercise = next((each for each in course.exercises if each.key == one.exercise), None)
    if exercise is None:
        raise UsageError(f"The course has no exercise {one.exercise} any more.", "--course names another course.")
    if not folder.secret_file.exists():
        raise UsageError(f"{folder.secret_file} is gone.", "Without it other inputs would be drawn.")
    secret = class_secret(folder.secret_file)
    now = {
        "the files of the exercise": (key.exercise_version, exercise_digest(exercise.folder)),
        "gpututor": (key.gpututor, __version__),
        "PyTorch": (key.torch, torch_version()),
        "the class secret": (key.secret, secret_id(secret)),
    }
    changed = [what for what, (then, today) in now.items() if then != today]
    if changed:
        raise UsageError(f"Not as it was when it was graded: {', '.join(changed)}.", _GRADE_ANEW)
    return jobs_of(replace(class_, handed_in=(one,)), course, folder, options, secret)[0]


def request_again(job: Job, recording: Path | None) -> GradeRequest:
    """What to ask of a judge; nothing is written to the journal. `recording`: a folder for what the devices do.

    Raises `GradingError` for a lost submission, and `NotGradableHere` where the device is not here.
    """
    kind = job.key.device.split()[0]
    found = load_inventory().accelerators if kind in ACCELERATORS else ()
    with RealDevices(found, dict).one_for(job) as device:
        request = job.request(device)
    return replace(request, key=None, journal=None, recording_folder=None if recording is None else str(recording))


def may_be_taken(report: Report) -> bool:
    """Whether a report says something of the submission: one of a grading that broke does not."""
    return report.outcome not in NO_RESULTS


def same_result(one: Report, other: Report) -> bool:
    """Whether two reports come to the same, check by check; times and words may differ."""
    return one.outcome == other.outcome and _statuses(one) == _statuses(other)


def _statuses(report: Report) -> list[tuple[str, str, str]]:
    return [(verdict.scenario, verdict.check, verdict.status) for verdict in report.verdicts]


def accept_regrade(folder: ClassFolder, key: GradingKey, report: Report) -> Path | None:
    """Put a report in the journal, in the place of the one that is there; where that one is kept, if there was one.

    Raises `OSError` where one of them cannot be written; the journal is as it was then.
    """
    path = key.file_in(folder.journal)
    kept = back_up(path, folder.replaced) if path.exists() else None
    write_entry(folder.journal, key, report)
    return kept
