"""Jobs: one grading each, with its options, seed and failure.

Whoever reports on a class reads the options of its folder, so that it finds the journal's files whatever has become of
the course, of gpututor and of this machine since.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gpututor import __version__
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.submissions import Class, Submission
from gpututor.course.model import Course, Exercise
from gpututor.errors import GradingError, NotGradableHere, UsageError
from gpututor.files import create_atomically, ordinary, write_atomically
from gpututor.grading.events import GradeRequest
from gpututor.grading.journal import GradingKey, exercise_digest, read_entry
from gpututor.grading.report import Report
from gpututor.hardware.inventory import Device, device_in_key, select_device
from gpututor.hardware.scenario import ACCELERATORS
from gpututor.json_dataclasses import read

_SECRET_BYTES = 32


def class_secret(path: Path) -> bytes:
    """The secret in `path`, 64 hexadecimal digits; drawn and written there (for its owner only) where nothing is.

    The same secret gives the same seeds on any machine. Raises `UsageError` for a file that holds none.
    """
    if not path.exists():
        before = os.umask(0o077)
        try:
            create_atomically(path, secrets.token_hex(_SECRET_BYTES) + "\n")
        finally:
            os.umask(before)
    try:
        with open(path, encoding="ascii", opener=ordinary) as stream:
            found = bytes.fromhex(stream.read(1024).strip())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the class secret cannot be read ({error})", _ADVICE) from error
    if len(found) != _SECRET_BYTES:
        raise UsageError(f"{path}: a class secret is {2 * _SECRET_BYTES} hexadecimal digits", _ADVICE)
    return found


_ADVICE = "Copy the file from the machine that graded the class first, or move it away for a new secret."


def secret_id(secret: bytes) -> str:
    """Sixteen hexadecimal digits that name a secret, and do not give it away."""
    return hmac.new(secret, b"id", hashlib.sha256).hexdigest()[:16]


def seed_for(secret: bytes, exercise: str, submission: str) -> int:
    """The seed of a grading's inputs, 0 to 2**32 - 1: nobody can know it without the secret.

    `exercise`: its key; `submission`: the SHA-256 of the file.
    """
    digest = hmac.new(secret, f"{exercise}\n{submission}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:4], "big")


SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ExerciseOptions:
    """How the submissions of one exercise are graded."""

    exercise: str
    """Its key."""
    version: str
    """See `exercise_version`."""
    device: str
    """As `GradingKey.device` has it."""


@dataclass(frozen=True)
class Options:
    """How a class is graded: what was asked for, and what that came to where it was graded."""

    device: str
    """As it was asked for: `auto`, `virtual`, `cpu`, `cuda`, `cuda:N` …"""
    gpu: str
    """The virtual GPU's model; empty for each scenario's own."""
    isolation: str
    gpututor: str
    torch: str
    secret: str
    """The class secret's name; see `secret_id`."""
    layout: str
    """As it was asked for; empty where it was found out."""
    exercise: str
    """The exercise that everything was said to be for; empty where nothing was said."""
    exercises: tuple[ExerciseOptions, ...] = ()
    """Of each exercise for which something was handed in."""
    schema_version: int = SCHEMA_VERSION

    def write(self, folder: ClassFolder) -> None:
        write_atomically(folder.options_file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: ClassFolder) -> Options:
        """Raises `UsageError` where nothing was graded, or the file cannot be read."""
        try:
            with open(folder.options_file, encoding="utf-8", opener=ordinary) as stream:
                return read(cls, json.load(stream), "")
        except FileNotFoundError:
            advice = "Grade one with `gpututor classroom grade`."
            raise UsageError(f"{folder.folder} holds no class that was graded.", advice) from None
        except (OSError, ValueError, RecursionError) as error:
            advice = "Move the file away, then grade the class again with --resume and the same options."
            raise UsageError(f"{folder.options_file}: {error}", advice) from error

    def key_of(self, one: Submission) -> GradingKey | None:
        """By which the grading is known; None for a file that is not graded."""
        exercise = self._by_exercise.get(one.exercise)
        if one.refusal or exercise is None:
            return None
        return GradingKey(
            submission=one.sha256,
            exercise=one.exercise,
            exercise_version=exercise.version,
            gpututor=self.gpututor,
            torch=self.torch,
            device=exercise.device,
            isolation=self.isolation,
            secret=self.secret,
        )

    @cached_property
    def _by_exercise(self) -> Mapping[str, ExerciseOptions]:
        return {each.exercise: each for each in self.exercises}


def settled(asked: Options, found: Class, course: Course, accelerators: Sequence[Device], torch: str) -> Options:
    """The options with all that is decided here and now: versions, and the device of each exercise.

    `accelerators`: those that can be used. Raises `NotGradableHere` where an exercise cannot be graded as it was asked
    for, `UsageError` for a device that nobody knows, and `CourseError`.
    """
    here = {kind: sum(device.kind == kind for device in accelerators) for kind in ACCELERATORS}
    names = sorted({one.exercise for one in found.handed_in if not one.refusal})
    decided: list[ExerciseOptions] = []
    for exercise in (exercise for exercise in course.exercises if exercise.key in names):
        try:
            kind, index = select_device(exercise.devices, asked.device, here)
        except NotGradableHere as error:
            title = f"{exercise.key}: {error.title[0].lower()}{error.title[1:]}"
            raise NotGradableHere(title, f"{error.advice} With --device auto each exercise has its own.") from None
        model = asked.gpu
        if kind in ACCELERATORS:
            model = next(device.description for device in accelerators if device.name == f"{kind}:{index}")
        decided.append(ExerciseOptions(exercise.key, exercise_digest(exercise.folder), device_in_key(kind, model)))
    return replace(asked, gpututor=__version__, torch=torch, exercises=tuple(decided))


@dataclass(frozen=True)
class Job:
    """One grading that is to be done. Plain data, which can travel to another machine that sees the same folders."""

    key: GradingKey
    exercise_folder: str
    submission_path: str
    file_name: str
    seed: int
    device: str
    """What to ask of the judge: `virtual`, `cpu`, or a kind of real device, of which the executor chooses one."""
    gpu: str
    """The virtual GPU's model; empty for each scenario's own."""
    journal: str
    within_s: float
    """A grading that takes longer hangs."""
    gpus: int = 0
    """How many real devices its scenarios may need; 0 where it is not graded on one."""

    def request(self, device: str = "") -> GradeRequest:
        """What is asked of the judge, on `device` where that is given. Raises `GradingError` for a lost submission."""
        try:
            with open(self.submission_path, "rb", opener=ordinary) as stream:
                text = stream.read().decode()
        except (OSError, ValueError) as error:
            advice = "Grade again with --resume: the files are read anew."
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


_START_S, _RUN_SHARE, _TIMED_S = 120.0, 10.0, 600.0
"""For a grading that hangs: far beyond what any takes."""


def jobs_of(found: Class, course: Course, folder: ClassFolder, options: Options, secret: bytes) -> list[Job]:
    """All gradings of a class, each once: whoever handed in the same text shares one."""
    exercises = {exercise.key: exercise for exercise in course.exercises}
    jobs: dict[GradingKey, Job] = {}
    for one in found.handed_in:
        key = options.key_of(one)
        if key is None or key in jobs:
            continue
        exercise = exercises[one.exercise]
        kind = key.device.split()[0]
        is_real = kind in ACCELERATORS
        index = options.device if options.device.startswith(f"{kind}:") else kind
        jobs[key] = Job(
            key=key,
            exercise_folder=str(exercise.folder),
            submission_path=str(folder.submission(one.sha256).absolute()),
            file_name=f"{exercise.slug}.py",
            seed=seed_for(secret, one.exercise, one.sha256),
            device=index,
            gpu="" if is_real else options.gpu,
            journal=str(folder.journal.absolute()),
            within_s=_within_s(exercise, is_real),
            gpus=max((1, *(scenario.gpus for scenario in exercise.scenarios))) if is_real else 0,
        )
    return list(jobs.values())


def _within_s(exercise: Exercise, is_real: bool) -> float:
    runs_s = exercise.limits.wall_s * len(exercise.scenarios) * _RUN_SHARE
    return _START_S + runs_s + (_TIMED_S if is_real else 0.0)


@dataclass(frozen=True)
class JobFailure:
    """A grading that could not be done: never the student's fault, as far as is known. `--resume` tries again."""

    key: GradingKey
    attempts: int
    why: str
    """What the last attempt ended with, plain text."""


def write_troubles(folder: ClassFolder, troubles: Sequence[JobFailure]) -> None:
    write_atomically(folder.troubles_file, json.dumps([asdict(each) for each in troubles], indent=1) + "\n")


def troubles_of(folder: ClassFolder) -> dict[GradingKey, JobFailure]:
    """What could not be graded at the last try. Raises `UsageError` for a file that cannot be read."""
    try:
        with open(folder.troubles_file, encoding="utf-8", opener=ordinary) as stream:
            data: Any = json.load(stream)
        if not isinstance(data, list):
            raise ValueError("it must hold a list")
        found = [read(JobFailure, each, f"[{number}]") for number, each in enumerate(data)]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        advice = "Move the file away, then grade the class again with --resume."
        raise UsageError(f"{folder.troubles_file}: {error}", advice) from error
    return {each.key: each for each in found}


def reports_of(folder: ClassFolder) -> Iterator[tuple[Submission, GradingKey | None, Report | None]]:
    """Everything that was handed in, in the class's order, with its key and its report.

    The key is None for what is not graded: `HandedIn.refusal` says why. The report is None for what is not graded yet,
    or could not be; see `troubles_of`. The same report may come several times. Raises `UsageError` where no class was
    graded, and `GradingError` for a file of the journal that is broken.
    """
    options = Options.read(folder)
    for one in folder.read_class().handed_in:
        key = options.key_of(one)
        yield one, key, read_entry(folder.journal, key) if key is not None else None
