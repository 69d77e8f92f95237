"""Jobs: one grading each, with its options, seed and failure.

Reports read the options of the class's folder. So they find the journal's files even after changes of the course, of
gpututor or of the machine.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gpututor.classroom.folder import ClassFolder, read_json, write_json
from gpututor.classroom.submissions import Class, Submission
from gpututor.classroom.variants import Variants
from gpututor.course.model import Course, Exercise
from gpututor.errors import GradingError, NotGradableHere, UsageError
from gpututor.files import create_atomically, ordinary
from gpututor.grading.events import GradeRequest
from gpututor.grading.journal import GradingKey, exercise_digest, has_entry
from gpututor.hardware.inventory import Device, device_in_key, select_device
from gpututor.hardware.scenario import ACCELERATORS
from gpututor.json_dataclasses import read

SCHEMA_VERSION = 1
_SECRET_BYTES = 32
_START_S, _RUN_FACTOR, _TIMED_S = 120.0, 10.0, 600.0
"""Parts of a job's timeout, which is far longer than any grading takes."""


def class_secret(path: Path) -> bytes:
    """Read the secret in `path`, 64 hexadecimal digits; draw and write one first if there is no file.

    The same secret gives the same seeds on any machine. Raises `UsageError` for a file without a secret.
    """
    if not path.exists():
        write_secret(path, secrets.token_bytes(_SECRET_BYTES))
    advice = "Copy the file from the machine that first graded the class, or move it away to get a new secret."
    try:
        with open(path, encoding="ascii", opener=ordinary) as stream:
            secret = bytes.fromhex(stream.read(1024).strip())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the class secret cannot be read ({error})", advice) from error
    if len(secret) != _SECRET_BYTES:
        raise UsageError(f"{path}: a class secret is {2 * _SECRET_BYTES} hexadecimal digits", advice)
    return secret


def write_secret(path: Path, secret: bytes) -> None:
    """Write the secret for its owner only, unless there is a file."""
    before = os.umask(0o077)
    try:
        create_atomically(path, secret.hex() + "\n")
    finally:
        os.umask(before)


def secret_id(secret: bytes) -> str:
    """Return 16 hexadecimal digits that identify a secret without revealing it."""
    return hmac.new(secret, b"id", hashlib.sha256).hexdigest()[:16]


def seed_for(secret: bytes, exercise: str, submission: str) -> int:
    """Return the seed, 0 to 2**32 - 1, for an exercise's key and a submission's SHA-256. Only the secret reveals it."""
    digest = hmac.new(secret, f"{exercise}\n{submission}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:4], "big")


@dataclass(frozen=True)
class StudentVersion:
    """Digest of the files of an exercise with a student's variant."""

    student: str
    version: str


@dataclass(frozen=True)
class ExerciseOptions:
    """Options for the submissions of one exercise."""

    exercise: str
    version: str
    """Digest of the exercise's files."""
    device: str
    """A `GradingKey.device`."""
    versions: tuple[StudentVersion, ...] = ()
    """Versions of students whose files differ from `version`."""

    @cached_property
    def version_by_student(self) -> Mapping[str, str]:
        return {entry.student: entry.version for entry in self.versions}


@dataclass(frozen=True)
class Options:
    """Options of a class: the instructor's, and the values that they had on the grading machine."""

    device: str
    """Requested device: `auto`, `virtual`, `cpu`, `cuda`, `cuda:N` …"""
    gpu: str
    """The virtual GPU's model; empty for each scenario's own."""
    isolation: str
    gpututor: str
    """Version with a digest of the code; see `grader_version`."""
    torch: str
    secret: str
    """The `secret_id` of the class secret."""
    layout: str
    """Requested layout; empty if it was detected."""
    exercise: str
    """Exercise of all files; empty if file names say it."""
    exercises: tuple[ExerciseOptions, ...] = ()
    schema_version: int = SCHEMA_VERSION

    def write(self, folder: ClassFolder) -> None:
        write_json(folder.options_file, asdict(self))

    @classmethod
    def read(cls, folder: ClassFolder) -> Options:
        """Raise `UsageError` if nothing was graded, or the file cannot be read."""
        advice = "Move the file away, then grade the class again with --resume and the same options."
        return folder.require_graded(read_json(folder.options_file, _options_of, advice))

    def key_of(self, submission: Submission) -> GradingKey | None:
        """Return the key of a grading in the journal; None for a file that is not graded."""
        exercise = self._by_exercise.get(submission.exercise)
        if submission.refusal or exercise is None:
            return None
        return GradingKey(
            submission=submission.sha256,
            exercise=submission.exercise,
            exercise_version=exercise.version_by_student.get(submission.student, exercise.version),
            gpututor=self.gpututor,
            torch=self.torch,
            device=exercise.device,
            isolation=self.isolation,
            secret=self.secret,
        )

    def has_variants(self, exercise: str) -> bool:
        """Return True if students have variants of the exercise."""
        return exercise in self._by_exercise and bool(self._by_exercise[exercise].versions)

    @cached_property
    def _by_exercise(self) -> Mapping[str, ExerciseOptions]:
        return {options.exercise: options for options in self.exercises}


def _options_of(data: Any) -> Options:
    """Read options. Exercises of old versions have no `versions`."""
    exercises = data.get("exercises") if isinstance(data, dict) else None
    for exercise in exercises if isinstance(exercises, list) else ():
        if isinstance(exercise, dict):
            exercise.setdefault("versions", [])
    return read(Options, data, "")


def resolve_options(
    options: Options,
    class_: Class,
    course: Course,
    accelerators: Sequence[Device],
    torch: str,
    variants: Variants | None = None,
) -> Options:
    """Fill in other versions and devices. `accelerators`: the usable ones; `variants`: None if no exercise has any.

    Raises `NotGradableHere` and `UsageError`.
    """
    counts = {kind: sum(device.kind == kind for device in accelerators) for kind in ACCELERATORS}
    keys = {submission.exercise for submission in class_.submissions if not submission.refusal}
    resolved: list[ExerciseOptions] = []
    for exercise in (exercise for exercise in course.exercises if exercise.key in keys):
        try:
            kind, index = select_device(exercise.devices, options.device, counts)
        except NotGradableHere as error:
            title = f"{exercise.key}: {error.title[0].lower()}{error.title[1:]}"
            raise NotGradableHere(title, f"{error.advice} With --device auto each exercise has its own.") from None
        model = options.gpu
        if kind in ACCELERATORS:
            model = next(device.description for device in accelerators if device.name == f"{kind}:{index}")
        version, device = exercise_digest(exercise.folder), device_in_key(kind, model)
        versions = _versions(exercise, class_, variants) if exercise.variants and variants is not None else ()
        resolved.append(ExerciseOptions(exercise.key, version, device, tuple(versions)))
    return replace(options, torch=torch, exercises=tuple(resolved))


def _versions(exercise: Exercise, class_: Class, variants: Variants) -> Iterator[StudentVersion]:
    digests: dict[Path, str] = {}
    for submission in {
        submission.student: submission for submission in class_.submissions if submission.exercise == exercise.key
    }.values():
        folder = variants.exercise_for(submission).folder
        if folder == exercise.folder:
            continue
        if folder not in digests:
            digests[folder] = exercise_digest(folder)
        yield StudentVersion(submission.student, digests[folder])


@dataclass(frozen=True)
class Job:
    """A grading to do. Plain data that another machine with the same shared folders understands."""

    key: GradingKey
    exercise_folder: str
    submission_path: str
    file_name: str
    seed: int
    device: str
    """Device for the judge: `virtual`, `cpu`, or a kind of real device, of which the executor chooses one."""
    gpu: str
    """The virtual GPU's model; empty for each scenario's own."""
    journal: str
    timeout_s: float
    """Seconds after which a grading counts as hung."""
    gpus: int = 0
    """Most real devices that a scenario needs; 0 for other devices."""

    @property
    def is_graded(self) -> bool:
        """True if the journal has the whole report."""
        return has_entry(Path(self.journal), self.key)

    def request(self, device: str = "") -> GradeRequest:
        """Make the request for the judge, on `device` if given. Raises `GradingError` for a lost submission."""
        try:
            with open(self.submission_path, "rb", opener=ordinary) as stream:
                text = stream.read().decode()
        except (OSError, ValueError) as error:
            advice = "Grade again with --resume, which reads all files again."
            raise GradingError(f"{self.submission_path}: cannot be read ({error})", advice) from error
        return GradeRequest(
            exercise_folder=self.exercise_folder,
            submission=text,
            file_name=self.file_name,
            device=device or self.device,
            gpu=self.gpu or None,
            seed=self.seed,
            key=self.key,
            journal=self.journal,
        )


def jobs_of(class_: Class, course: Course, folder: ClassFolder, options: Options, secret: bytes) -> list[Job]:
    """Return all gradings of a class; students with the same text share one."""
    variants = Variants(class_, course, folder)
    jobs: dict[GradingKey, Job] = {}
    for submission in class_.submissions:
        key = options.key_of(submission)
        if key is None or key in jobs:
            continue
        exercise = variants.exercise_for(submission)
        kind = key.device.split()[0]
        is_real = kind in ACCELERATORS
        jobs[key] = Job(
            key=key,
            exercise_folder=str(exercise.folder),
            submission_path=str(folder.submission(submission.sha256).absolute()),
            file_name=f"{exercise.slug}.py",
            seed=seed_for(secret, submission.exercise, submission.sha256),
            device=options.device if options.device.startswith(f"{kind}:") else kind,
            gpu="" if is_real else options.gpu,
            journal=str(folder.journal.absolute()),
            timeout_s=_START_S
            + exercise.limits.wall_s * len(exercise.scenarios) * _RUN_FACTOR
            + (_TIMED_S if is_real else 0.0),
            gpus=max((1, *(scenario.gpus for scenario in exercise.scenarios))) if is_real else 0,
        )
    return list(jobs.values())


@dataclass(frozen=True)
class JobFailure:
    """A grading without a report, probably through no fault of the student. `--resume` retries it."""

    key: GradingKey
    attempts: int
    why: str
    """Error of the last attempt, plain text."""


def write_failures(folder: ClassFolder, failures: Sequence[JobFailure]) -> None:
    write_json(folder.failures_file, [asdict(failure) for failure in failures])


def read_failures(folder: ClassFolder) -> dict[GradingKey, JobFailure]:
    """Read the gradings that failed in the last run. Raises `UsageError` for a file that cannot be read."""

    def build(data: object) -> list[JobFailure]:
        if not isinstance(data, list):
            raise ValueError("it must contain a list")
        return [read(JobFailure, entry, f"[{number}]") for number, entry in enumerate(data)]

    advice = "Move the file away, then grade the class again with --resume."
    return {failure.key: failure for failure in read_json(folder.failures_file, build, advice) or ()}
