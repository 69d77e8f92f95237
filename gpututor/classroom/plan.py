"""The grading plan: which submissions are still to grade."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import Job, Options, class_secret, jobs_of, secret_id, settled
from gpututor.classroom.submissions import Class
from gpututor.classroom.work_queue import is_in_journal
from gpututor.course.model import Course
from gpututor.errors import NotGradableHere, UsageError
from gpututor.files import create_atomically, sync_folder
from gpututor.hardware.gpus import gpu_spec
from gpututor.hardware.inventory import (
    Device,
    Inventory,
    check_device_name,
    device_in_key,
    load_inventory,
    torch_version,
)
from gpututor.hardware.scenario import ACCELERATORS
from gpututor.processes import python_module

PROBE_TIMEOUT_S = 150.0


@dataclass(frozen=True)
class GradeOptions:
    """How a class is to be graded. None: as the last time where it is gone on with, else by itself."""

    device: str | None = None
    gpu: str | None = None
    isolation: str | None = None
    layout: str | None = None
    exercise: str | None = None
    secret: Path | None = None
    resume: bool = False


@dataclass(frozen=True)
class GradingPlan:
    """A class, and what is left to be done."""

    found: Class
    options: Options
    jobs: Sequence[Job]
    already: int
    """Gradings that the journal holds."""
    devices: tuple[Device, ...]
    """The real ones that can be used."""
    changed: str = ""
    """What is not as it was the last time, so that other gradings are needed; empty where all is."""
    working: frozenset[str] = frozenset()
    """Exercises of which the journal holds gradings as they would be made now."""


Isolated = Callable[[], frozenset[str]]
"""Which devices can be used in bubblewrap. Raises `NotGradableHere` where it does not work."""


def working_in_bubblewrap() -> frozenset[str]:
    """See `Isolated`. It takes seconds: a worker is started, in a process of its own."""
    try:
        done = subprocess.run(
            python_module("gpututor.judge.isolation.probe"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
        found = json.loads(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
        title, advice, devices = (found[key] for key in ("title", "advice", "devices"))
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        title = f"It cannot be told whether bubblewrap works: {error}"
        raise NotGradableHere(title, "Run `gpututor doctor`.") from error
    if not devices:
        raise NotGradableHere(title, advice)
    return frozenset(map(str, devices))


def options_asked(asked: GradeOptions, folder: ClassFolder, course: Course) -> tuple[Options, Options | None]:
    """What holds, before anything is settled; and the options of the last time, where it is gone on with.

    Raises `UsageError` for what nobody knows, for a folder that holds gradings where nobody said --resume, and for one
    whose gradings were made with another secret than there is.
    """
    is_graded = any(folder.journal.glob("*/*.json"))
    if is_graded and not asked.resume:
        raise UsageError(
            f"{folder.folder} holds a class that was graded, whole or in part.",
            "Go on with it with --resume, which grades only what is new or not done; or name another folder.",
        )
    last = Options.read(folder) if asked.resume and folder.options_file.exists() else None
    gpu = gpu_spec(asked.gpu).name if asked.gpu else ""
    device = asked.device or ("virtual" if gpu else "")
    check_device_name(device or "auto")
    if gpu and device.partition(":")[0] not in ("auto", "virtual"):
        raise UsageError(f"--gpu is for the virtual GPU, not for --device {device}.", "Leave out one of them.")
    if last is not None and not device:
        device, gpu = last.device, last.gpu
    options = Options(
        device="virtual" if gpu else device or "auto",
        gpu=gpu,
        isolation=asked.isolation or (last.isolation if last else "bubblewrap"),
        gpututor="",
        torch="",
        secret=secret_id(_secret(asked.secret, folder, last.secret if last else "", is_graded)),
        layout=_kept(asked.layout, last.layout if last else ""),
        exercise=course.find(asked.exercise).key if asked.exercise else (last.exercise if last else ""),
    )
    return options, last


def plan_grading(
    options: Options,
    last: Options | None,
    found: Class,
    folder: ClassFolder,
    course: Course,
    isolated: Isolated = working_in_bubblewrap,
    inventory: Callable[[], Inventory] = load_inventory,
) -> GradingPlan:
    """Settle how the class is graded, and write it down with the class.

    Raises what `settled` does, and `UsageError` for a course without checks and a class with no file for an exercise:
    then nothing is written down.

    Where all is done already no process is started.
    """
    course.check_has_checks()
    _check_any(found, course)
    torch = torch_version()
    if not torch:
        raise NotGradableHere("PyTorch is not installed.", f"`{sys.executable} -m pip install torch` brings it.")
    is_for_real = options.device.partition(":")[0] in ("auto", *ACCELERATORS)
    known = inventory().accelerators if is_for_real else ()
    secret = class_secret(folder.secret_file)
    usable = _as_last_time(last, known)
    as_before = _settled_before(options, last, found, course, usable, torch)
    jobs = jobs_of(found, course, folder, as_before, secret) if as_before else []
    if as_before is not None and not _missing(jobs):
        now = as_before
    else:
        usable = known
        if options.isolation == "bubblewrap":
            works = isolated()
            usable = tuple(device for device in usable if device.name in works)
        now = settled(options, found, course, usable, torch)
        jobs = jobs_of(found, course, folder, now, secret)
    missing = _missing(jobs)
    folder.write_class(found)
    folder.journal.mkdir(parents=True, exist_ok=True)
    now.write(folder)
    sync_folder(folder.folder)  # what gradings need outlasts a power cut as they do: the secret, the journal's own name
    left = {job.key for job in missing}
    working = frozenset(job.key.exercise for job in jobs if job.key not in left)
    return GradingPlan(found, now, missing, len(jobs) - len(missing), usable, _changed(last, now), working)


def _check_any(found: Class, course: Course) -> None:
    if found.handed_in:
        return
    title = f"Nothing that was handed in can be graded with the course {course.id!r}."
    packed_for = sorted({one.packed_for for one in found.unmatched if one.packed_for})
    if packed_for:
        others = " and ".join(map(repr, packed_for))
        raise UsageError(title, f"Files were packed for the course {others}: name its folder with --course DIR.")
    raise UsageError(
        title,
        "The lines above say why, file by file. Name the folder of another course with --course DIR; say --exercise "
        "EXERCISE where all is for one; or rename files, such as to 1.1.py, and say the same again.",
    )


def _settled_before(
    options: Options, last: Options | None, found: Class, course: Course, usable: tuple[Device, ...], torch: str
) -> Options | None:
    """As it was the last time; None where there was none, or it cannot be had so."""
    if last is None:
        return None
    try:
        return settled(options, found, course, usable, torch)
    except NotGradableHere:
        return None


def _missing(jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if not is_in_journal(job)]


def _as_last_time(last: Options | None, known: Sequence[Device]) -> tuple[Device, ...]:
    """The real devices of this machine that the last run used."""
    used = {each.device for each in last.exercises} if last else set()
    return tuple(device for device in known if device_in_key(device.kind, device.description) in used)


def _changed(last: Options | None, now: Options) -> str:
    if last is None:
        return ""
    said, says = _said(last), _said(now)
    words = [f"{name} {said[name]} → {says[name]}" for name in says if said[name] != says[name]]
    old = {each.exercise: each for each in last.exercises}
    both = [(old[each.exercise], each) for each in now.exercises if each.exercise in old]
    versions = [each.exercise for before, each in both if before.version != each.version]
    devices = {f"{before.device} → {each.device}" for before, each in both if before.device != each.device}
    words += [f"device {each}" for each in sorted(devices)]
    words += [f"files of {', '.join(versions[:5])}{' …' * (len(versions) > 5)}"] if versions else []
    return "; ".join(words)


def _said(options: Options) -> dict[str, str]:
    return {
        "gpututor": options.gpututor,
        "PyTorch": options.torch,
        "isolation": options.isolation,
    }


def _kept(asked: str | None, last: str) -> str:
    return last if asked is None else asked


def _secret(given: Path | None, folder: ClassFolder, last: str, is_graded: bool) -> bytes:
    """The class secret; `given` is the file of one that is to be used, which is kept in the folder from then on.

    `last`: the name of the one that the class was graded with, where that is known.
    """
    path = given or folder.secret_file
    if not path.exists():
        if given is not None:
            raise UsageError(f"{given}: there is no such file", "Without --secret a new secret is drawn.")
        if is_graded:
            raise UsageError(f"{path} is gone: the class was graded with it.", _LOST)
    secret = class_secret(path)
    if is_graded and last and secret_id(secret) != last:
        raise UsageError(f"{path} is not the secret that the class was graded with.", _LOST)
    _write_secret(folder, secret)
    if class_secret(folder.secret_file) != secret:
        raise UsageError(
            f"{folder.secret_file} is another secret than {given}.",
            "A class is graded with one: leave out --secret, or name another folder with --out.",
        )
    return secret


_LOST = (
    "Name a copy of it with --secret, or put it back. With another secret all would be graded anew, with other inputs: "
    "to have it so, name another folder with --out."
)


def _write_secret(folder: ClassFolder, secret: bytes) -> None:
    """Where it is not there; for its owner only, also where somebody copied it there."""
    before = os.umask(0o077)
    try:
        create_atomically(folder.secret_file, secret.hex() + "\n")
    finally:
        os.umask(before)
    if folder.secret_file.stat().st_mode & 0o077:
        with contextlib.suppress(OSError):  # another's file
            folder.secret_file.chmod(0o600)
