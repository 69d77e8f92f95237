"""Classes and reports for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpututor import __version__
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import Options, class_secret, resolve_options, secret_id
from gpututor.classroom.submissions import Class, Student, Submission, Unmatched
from gpututor.course.loader import load_course
from gpututor.grading.description import CheckDescription
from gpututor.grading.journal import GradingKey, grader_version, read_entry, write_entry
from gpututor.grading.report import Environment, Outcome, Report, Verdict
from gpututor.hardware.inventory import torch_version
from tests.support.shipped_course import COURSE


def describe_tiny_checks(patch: pytest.MonkeyPatch) -> None:
    """Describe the checks of a tiny course without a judge."""
    check = CheckDescription("value", "values", 1.0, ("twice() returns the expected value",), depends_on_device=False)
    describer = SimpleNamespace(describe=lambda exercise_folder: (check,), close=lambda: None)
    patch.setattr("gpututor.classroom.rules.GradingClient", lambda: describer)


def class_of(
    folder: ClassFolder, files: Iterable[tuple[str, str, str]], course: Path, unmatched: Iterable[Unmatched] = ()
) -> Class:
    """Make a class from `(student, exercise, text)`; write it and its submissions to `folder`."""
    submissions: list[Submission] = []
    for student, exercise, text in files:
        digest = hashlib.sha256(text.encode()).hexdigest()
        path = folder.submission(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        attempt = 1 + sum(
            (submission.student, submission.exercise) == (student, exercise) for submission in submissions
        )
        source = f"{student}/{exercise.partition('/')[2]}.py"
        submissions.append(Submission(student, exercise, source, digest, attempt=attempt))
    students = tuple(Student(name) for name in dict.fromkeys(submission.student for submission in submissions))
    class_ = Class(str(course), "folders", students, tuple(submissions), tuple(unmatched))
    folder.write_class(class_)
    return class_


def report_of(
    exercise: str,
    outcome: Outcome = Outcome.PASSED,
    verdicts: tuple[Verdict, ...] = (),
    submission: str = "",
    reason: str = "",
    suspicions: tuple[str, ...] = (),
) -> Report:
    """Make a report as the judge writes it."""
    return Report(
        exercise=exercise,
        outcome=outcome,
        verdicts=verdicts,
        runs=(),
        environment=Environment(__version__, "2.9.0", "3.11.2", "linux x86_64", "process", 1),
        submission_sha256=hashlib.sha256(submission.encode()).hexdigest(),
        started_at="2026-01-01T00:00:00+00:00",
        elapsed_s=0.5,
        reason=reason,
        suspicions=suspicions,
    )


SECRET = bytes(32)
ASKED = Options("auto", "", "process", "", "", secret_id(SECRET), "", "")


def class_with_options(
    folder: ClassFolder, files: Iterable[tuple[str, str, str]], asked: Options = ASKED
) -> tuple[Class, Options]:
    """Make a class of the shipped course from `(student, exercise, text)`, and its options for PyTorch 2.9.0."""
    class_ = class_of(folder, files, COURSE.folder)
    options = resolve_options(asked, class_, COURSE, (), "2.9.0")
    options.write(folder)
    return class_, options


def graded_class(folder: ClassFolder, files: Iterable[tuple[str, str, str, Report | None]], course: Path) -> Class:
    """Make a class from `(student, exercise, text, report)`, graded with the installed versions; None: not graded."""
    files = list(files)
    class_ = class_of(folder, [file[:3] for file in files], course)
    asked = Options("virtual", "", "process", grader_version(), "", secret_id(class_secret(folder.secret_file)), "", "")
    options = resolve_options(asked, class_, load_course(course), (), torch_version())
    options.write(folder)
    for submission, (*_, report) in zip(class_.submissions, files, strict=True):
        if report is not None and (key := options.key_of(submission)) is not None:
            write_entry(folder.journal, key, report)
    return class_


def key_at(folder: ClassFolder, position: int) -> GradingKey:
    """Return the key of a submission that is not refused."""
    key = Options.read(folder).key_of(folder.read_class().submissions[position])
    assert key is not None
    return key


def reports_of(folder: ClassFolder) -> Iterator[tuple[Submission, GradingKey | None, Report | None]]:
    """Yield each submission with its key and its report in the journal."""
    options = Options.read(folder)
    for submission in folder.read_class().submissions:
        key = options.key_of(submission)
        yield submission, key, read_entry(folder.journal, key) if key is not None else None
