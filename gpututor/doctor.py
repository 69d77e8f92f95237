"""Checks of this installation: versions, devices, folders, course.

`gpututor doctor` prints them, the app's devices screen shows them.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gpututor import describe_version, paths
from gpututor.course.loader import load_course, version_numbers
from gpututor.course.model import Course
from gpututor.course.workspace import check_not_missing, find_workspace
from gpututor.errors import ProgressError, TutorError
from gpututor.hardware.inventory import Inventory, device_line, load_inventory
from gpututor.hardware.nvidia_driver import has_nvidia_gpu, installed_driver
from gpututor.hardware.packages import TORCH
from gpututor.hardware.torch_build import find_misfit, installed_build
from gpututor.processes import python_module
from gpututor.progress.database import spool_folder, spooled
from gpututor.progress.store import ProgressStore
from gpututor.settings import SettingsFile

OK, NOTE, WRONG = "ok", "note", "WRONG"
OWN_FILES = "Your own files are graded without it."
PROBE_TIMEOUT_S = 150.0
"""Seconds, more than the probe's own limit for its worker."""


@dataclass(frozen=True)
class Diagnosis:
    """Result of one check."""

    state: str
    """`ok`, `note` or `WRONG`."""
    about: str
    words: str
    advice: str = ""


def findings(course_folder: Path | None = None, workspace_folder: Path | None = None) -> Iterator[Diagnosis]:
    """Yield the results of all checks, in seconds. Default folders: gpututor's course, the learner's workspace."""
    yield Diagnosis(OK, "gpututor", f"{describe_version()} in {paths.PACKAGE}")
    yield Diagnosis(OK, "Python", f"{platform.python_version()}, {sys.executable}, {platform.platform()}")
    yield from _packages()
    inventory = load_inventory(refresh=True)
    yield from _devices(inventory)
    yield from _torch_build(inventory)
    yield _isolation()
    yield _terminal()
    course: Course | None = None
    try:
        course = load_course(course_folder or paths.builtin_course())
    except TutorError as error:
        yield Diagnosis(WRONG, "course", error.title, error.advice)
    else:
        yield from _course(course)
    yield _workspace(workspace_folder, course)
    yield _progress(course.place if course else "")
    yield _writable("settings", paths.config_folder())
    yield from (Diagnosis(NOTE, "settings", fault) for fault in SettingsFile().faults)
    yield _writable("cache", paths.cache_folder())


def _packages() -> Iterator[Diagnosis]:
    """Compare the installed packages with gpututor's requirements."""
    try:
        needed = [line for line in metadata.requires("gpututor") or () if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        words = "gpututor is not installed, so its requirements are unknown"
        yield Diagnosis(NOTE, "packages", words, "`pip install -e .`")
        return
    for line in sorted(needed):
        name = re.split(r"[^\w-]", line, maxsplit=1)[0]
        advice = _pip(line)
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Diagnosis(WRONG, name, "is not installed", advice)
            continue
        installed = version_numbers(version)
        too_old = any(installed < version_numbers(least) for least in re.findall(r">=([\d.]+)", line))
        if too_old or any(installed >= version_numbers(limit) for limit in re.findall(r"<([\d.]+)", line)):
            yield Diagnosis(WRONG, name, f"{version}, but gpututor needs {line}", advice)
        elif name == "torch" and not TORCH.works_in(version):
            words = f"{version}, but gpututor's virtual GPU was tested with {TORCH.versions}"
            yield Diagnosis(NOTE, name, words, _pip(f"torch=={TORCH.newest}.*"))
        else:
            yield Diagnosis(OK, name, version)


def _pip(requirement: str) -> str:
    """Return advice for pip, with the Python of gpututor's own environment."""
    return f"In gpututor's environment: `{sys.executable} -m pip install '{requirement}'`"


def _devices(inventory: Inventory) -> Iterator[Diagnosis]:
    if inventory.error:
        yield Diagnosis(WRONG, "devices", inventory.error, "`python -c 'import torch'` shows whether PyTorch works.")
        return
    for device in inventory.devices:
        yield Diagnosis(OK, "device", device_line(device))
    if not inventory.accelerators:
        yield Diagnosis(OK, "device", "no accelerator; exercises run on the virtual GPU")


def _torch_build(inventory: Inventory) -> Iterator[Diagnosis]:
    """Compare the build of PyTorch with NVIDIA's driver; nothing without PyTorch."""
    build = installed_build()
    if build is None:
        return
    driver = installed_driver()
    sees_gpu = any(device.kind == "cuda" for device in inventory.accelerators)
    misfit = find_misfit(build, inventory.torch, driver, has_nvidia_gpu(), sees_gpu)
    if misfit:
        yield Diagnosis(NOTE, "PyTorch", f"built for {build.title}, {misfit.words}", misfit.advice)
    elif driver and build.cuda:
        yield Diagnosis(OK, "PyTorch", f"built for {build.title}, which NVIDIA's driver {driver.version} runs")
    else:
        yield Diagnosis(OK, "PyTorch", f"built for {build.title}")


def _isolation() -> Diagnosis:
    """Check in a child process that a worker can use all devices in bubblewrap."""
    try:
        done = subprocess.run(
            python_module("gpututor.judge.isolation.probe"), capture_output=True, timeout=PROBE_TIMEOUT_S, check=False
        )
        answer = json.loads(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
        works, title, advice, devices = (answer[key] for key in ("works", "title", "advice", "devices"))
    except subprocess.TimeoutExpired:
        words = f"bubblewrap was not checked: a trial took over {PROBE_TIMEOUT_S:g} s"
        return Diagnosis(NOTE, "isolation", words, f"Run `gpututor doctor` again on an idle computer. {OWN_FILES}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Diagnosis(NOTE, "isolation", f"cannot check bubblewrap: {error}", OWN_FILES)
    lacking = [device.name for device in load_inventory().accelerators if device.name not in devices]
    if not devices or (not works and not lacking):
        return Diagnosis(NOTE, "isolation", title.rstrip("."), f"{OWN_FILES} {advice}")
    if lacking:
        reason = f": {title}" if title else ""
        words = f"bubblewrap works, but {', '.join(lacking)} cannot be used in it{reason}"
        return Diagnosis(NOTE, "isolation", words, "Other people's files are graded on the virtual GPU.")
    return Diagnosis(OK, "isolation", f"bubblewrap works, with {', '.join(devices)}")


def _terminal() -> Diagnosis:
    # Inside the app, sys.stdout is not a file.
    encoding = getattr(sys.stdout, "encoding", "") or getattr(sys.__stdout__, "encoding", "") or "unknown"
    if encoding.lower().replace("-", "") != "utf8":
        words = f"its encoding is {encoding}, so some characters appear as ?"
        return Diagnosis(NOTE, "terminal", words, "Set LANG=C.UTF-8 or another UTF-8 locale.")
    return Diagnosis(OK, "terminal", f"{os.environ.get('TERM', 'no TERM')}, UTF-8")


def _course(course: Course) -> Iterator[Diagnosis]:
    count = f"{len(course.exercises)} exercises in {len(course.lessons)} lessons"
    yield Diagnosis(OK if course.exercises else WRONG, "course", f"{count}, {course.folder}")
    for problem in course.problems:
        yield Diagnosis(WRONG, "course", problem.title, problem.advice)


def _workspace(folder: Path | None, course: Course | None) -> Diagnosis:
    workspace = find_workspace(folder, course)
    if workspace is None:
        try:
            if folder is None and course is not None:
                check_not_missing(course)
        except TutorError as error:
            return Diagnosis(WRONG, "workspace", error.title, error.advice)
        return Diagnosis(NOTE, "workspace", "there is none yet", "`gpututor init` or the app makes it.")
    return _writable("workspace", workspace.folder)


def _progress(place: str) -> Diagnosis:
    path = paths.progress_file(place)
    if not path.exists():
        return _writable("progress", path.parent)
    try:
        store = ProgressStore(path)
        attempts = sum(progress.attempts for progress in store.summary().values())
        store.close()
    except ProgressError as error:
        return Diagnosis(WRONG, "progress", error.title, error.advice)
    if waiting := spooled(path):
        words = f"{len(waiting)} saved attempts or steps in {spool_folder(path)} are not in {path}"
        advice = "The app stores them at its next start. Those that remain are damaged, or come from a newer gpututor."
        return Diagnosis(NOTE, "progress", words, advice)
    if store.notice:
        return Diagnosis(NOTE, "progress", store.notice)
    return Diagnosis(OK, "progress", f"{attempts} attempt{'s' * (attempts != 1)} in {path}")


def _writable(about: str, folder: Path) -> Diagnosis:
    """Check that `folder` is writable or can be created."""
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        advice = f"Give yourself write permission for {nearest}, or move gpututor's files with GPUTUTOR_HOME=FOLDER."
        return Diagnosis(WRONG, about, f"{folder} cannot be written to", advice)
    words = "can be written to" if nearest == folder else "will be created when needed"
    return Diagnosis(OK, about, f"{folder} {words}")
