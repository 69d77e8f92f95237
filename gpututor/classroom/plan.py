"""The grading plan: which submissions are still to grade."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.executors.local import working_in_bubblewrap
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import Job, Options, class_secret, jobs_of, resolve_options, secret_id, write_secret
from gpututor.classroom.submissions import Class
from gpututor.classroom.variants import Variants
from gpututor.course.model import Course
from gpututor.errors import NotGradableHere, UsageError
from gpututor.files import sync_folder
from gpututor.grading.journal import GradingKey, grader_version, has_entry
from gpututor.hardware.gpus import gpu_spec
from gpututor.hardware.inventory import (
    Device,
    Inventory,
    check_device_name,
    device_in_key,
    load_inventory,
    torch_version,
)
from gpututor.hardware.packages import TORCH_REQUIREMENT
from gpututor.hardware.scenario import ACCELERATORS

_LOST_SECRET = (
    "Restore it, or name a copy with --secret. Another secret means other inputs and new gradings: if you want that, "
    "choose another folder with --out."
)


@dataclass(frozen=True)
class GradeOptions:
    """The instructor's options. None: the value of the last run if there was one, else the default."""

    device: str | None = None
    gpu: str | None = None
    isolation: str | None = None
    layout: str | None = None
    exercise: str | None = None
    secret: Path | None = None
    resume: bool = False


@dataclass(frozen=True)
class GradingPlan:
    """A class, and its gradings that are still to do."""

    class_: Class
    options: Options
    jobs: Sequence[Job]
    already: int
    devices: tuple[Device, ...]
    """Usable real devices."""
    changed: str = ""
    """Changes since the last run that require new gradings; empty if there are none."""
    grader_changed: str = ""
    """The change of gpututor itself since the last run: `0.1.0 1a2b3c4d5e6f → 0.1.0 9f8e7d6c5b4a`, or empty."""
    anew: int = 0
    """Number of gradings to repeat: with the last run's options, the journal has their reports."""
    working: frozenset[str] = frozenset()
    notice: str = ""
    """Sentences about variants of exercises; see `Variants.notice`."""


def merge_options(given: GradeOptions, folder: ClassFolder, course: Course) -> tuple[Options, Options | None]:
    """Return the unresolved options, and those of the last run when it is resumed. Raises `UsageError`."""
    is_graded = any(folder.journal.glob("*/*.json"))
    if is_graded and not given.resume:
        raise UsageError(
            f"{folder.folder} already has gradings of a class.",
            "Continue with --resume, which grades only new or unfinished submissions; or choose another folder.",
        )
    last = Options.read(folder) if given.resume and folder.options_file.exists() else None
    gpu = gpu_spec(given.gpu).name if given.gpu else ""
    device = given.device or ("virtual" if gpu else "")
    check_device_name(device or "auto")
    if gpu and device.partition(":")[0] not in ("auto", "virtual"):
        raise UsageError(f"--gpu is for the virtual GPU, not for --device {device}.", "Leave out one of them.")
    if last is not None and not device:
        device, gpu = last.device, last.gpu
    layout = given.layout if given.layout is not None else last.layout if last else ""
    options = Options(
        device="virtual" if gpu else device or "auto",
        gpu=gpu,
        isolation=given.isolation or (last.isolation if last else "bubblewrap"),
        gpututor=grader_version(),
        torch="",
        secret=secret_id(_secret(given.secret, folder, last.secret if last else "", is_graded)),
        layout=layout,
        exercise=course.find(given.exercise).key if given.exercise else (last.exercise if last else ""),
    )
    return options, last


def plan_grading(
    options: Options,
    last: Options | None,
    class_: Class,
    folder: ClassFolder,
    course: Course,
    isolated_devices: Callable[[], frozenset[str]] = working_in_bubblewrap,
    inventory: Callable[[], Inventory] = load_inventory,
) -> GradingPlan:
    """Resolve the options, write them and the class to the folder, and list the missing gradings.

    Starts no process if nothing is missing. Raises the errors of `resolve_options`. Also raises `UsageError` for a
    course without checks, and for a class without any file for an exercise. Then nothing is written.
    """
    course.check_has_checks()
    _check_not_empty(class_, course)
    torch = torch_version()
    if not torch:
        advice = f"`{sys.executable} -m pip install '{TORCH_REQUIREMENT}'` installs it."
        raise NotGradableHere("PyTorch is not installed.", advice)
    may_use_real_devices = options.device.partition(":")[0] in ("auto", *ACCELERATORS)
    accelerators = inventory().accelerators if may_use_real_devices else ()
    secret = class_secret(folder.secret_file)
    variants = Variants(class_, course, folder)
    used = {exercise.device for exercise in last.exercises} if last else set()
    usable = tuple(device for device in accelerators if device_in_key(device.kind, device.description) in used)
    resolved: Options | None = None
    if last is not None:
        with contextlib.suppress(NotGradableHere):
            resolved = resolve_options(options, class_, course, usable, torch, variants)
    jobs = jobs_of(class_, course, folder, resolved, secret) if resolved else []
    missing = [job for job in jobs if not job.is_graded]
    if resolved is None or missing:
        usable = accelerators
        if options.isolation == "bubblewrap":
            working = isolated_devices()
            usable = tuple(device for device in usable if device.name in working)
        resolved = resolve_options(options, class_, course, usable, torch, variants)
        jobs = jobs_of(class_, course, folder, resolved, secret)
        missing = [job for job in jobs if not job.is_graded]
    folder.write_class(class_)
    folder.journal.mkdir(parents=True, exist_ok=True)
    resolved.write(folder)
    sync_folder(folder.folder)  # the secret and the journal's name must survive a power cut, as gradings do
    missing_keys = {job.key for job in missing}
    done = frozenset(job.key.exercise for job in jobs if job.key not in missing_keys)
    return GradingPlan(
        class_,
        resolved,
        missing,
        len(jobs) - len(missing),
        usable,
        changed=_changes(last, resolved),
        grader_changed=_grader_change(last, resolved),
        anew=_count_anew(last, resolved, class_, folder, missing_keys),
        working=done,
        notice=variants.notice(),
    )


def _check_not_empty(class_: Class, course: Course) -> None:
    if class_.submissions:
        return
    title = f"No submitted file belongs to an exercise of the course {course.id!r}."
    if packed_for := sorted({file.packed_for for file in class_.unmatched if file.packed_for}):
        others = " and ".join(map(repr, packed_for))
        raise UsageError(title, f"Students packed files for the course {others}: name its folder with --course DIR.")
    raise UsageError(
        title,
        "The lines above give the reason for each file. Name another course with --course DIR, or the exercise of all "
        "files with --exercise EXERCISE; or rename files, such as to 1.1.py. Then run the command again.",
    )


def _grader_change(last: Options | None, now: Options) -> str:
    return f"{last.gpututor} → {now.gpututor}" if last is not None and last.gpututor != now.gpututor else ""


def _count_anew(
    last: Options | None, now: Options, class_: Class, folder: ClassFolder, missing: Set[GradingKey]
) -> int:
    """Count the missing gradings that are in the journal with the options of the last run."""
    if last is None:
        return 0
    before = {last.key_of(submission) for submission in class_.submissions if now.key_of(submission) in missing}
    return sum(key is not None and has_entry(folder.journal, key) for key in before)


def _changes(last: Options | None, now: Options) -> str:
    if last is None:
        return ""
    values = (
        ("PyTorch", last.torch, now.torch),
        ("isolation", last.isolation, now.isolation),
    )
    words = [f"{name} {before} → {after}" for name, before, after in values if before != after]
    old = {exercise.exercise: exercise for exercise in last.exercises}
    both = [(old[exercise.exercise], exercise) for exercise in now.exercises if exercise.exercise in old]
    versions = [after.exercise for before, after in both if before.version != after.version]
    devices = {f"{before.device} → {after.device}" for before, after in both if before.device != after.device}
    words += [f"device {change}" for change in sorted(devices)]
    words += [f"files of {', '.join(versions[:5])}{' …' * (len(versions) > 5)}"] if versions else []
    return "; ".join(words)


def _secret(given: Path | None, folder: ClassFolder, last: str, is_graded: bool) -> bytes:
    """Read the class secret in the folder, or copy it from `given`. `last`: the last run's `secret_id`, or empty."""
    path = given or folder.secret_file
    if not path.exists():
        if given is not None:
            raise UsageError(f"{given}: there is no such file", "Without --secret, gpututor makes a new secret.")
        if is_graded:
            raise UsageError(f"{path} is missing, and the class was graded with it.", _LOST_SECRET)
    secret = class_secret(path)
    if is_graded and last and secret_id(secret) != last:
        raise UsageError(f"{path} is not the secret that the class was graded with.", _LOST_SECRET)
    write_secret(folder.secret_file, secret)
    if folder.secret_file.stat().st_mode & 0o077:  # a copy by hand
        with contextlib.suppress(OSError):  # another user's file
            folder.secret_file.chmod(0o600)
    if class_secret(folder.secret_file) != secret:
        raise UsageError(
            f"{folder.secret_file} and {given} are different secrets.",
            "A class has one secret: leave out --secret, or choose another folder with --out.",
        )
    return secret
