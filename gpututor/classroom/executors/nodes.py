"""What a node of a cluster does for a class: it says whether it can grade, and grades some jobs, one after the other.

Plain functions of plain data: whoever runs them there need not know what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpututor import __version__
from gpututor.classroom.batch import Job
from gpututor.classroom.executors.one import Broke, Judge, check_journal, grade_one, judge_in
from gpututor.classroom.executors.real_devices import RealDevices, probe_devices
from gpututor.classroom.keys import exercise_version
from gpututor.classroom.start import working_in_bubblewrap
from gpututor.classroom.work import is_in_journal
from gpututor.errors import CourseError, NotGradableHere, TutorError, UsageError
from gpututor.grading.client import IsolationName
from gpututor.grading.inventory import known_devices, torch_version


@dataclass(frozen=True)
class Needed:
    """What a node must have, so that the keys of its gradings tell the truth."""

    job: Job
    """Any of those that are to be done."""
    exercises: tuple[tuple[str, str], ...]
    """The folder of each exercise, and its version."""
    isolation: IsolationName
    sign: str
    """A file in the journal, which only the journal of this class has."""

    @classmethod
    def by(cls, jobs: Sequence[Job], isolation: IsolationName, sign: str) -> Needed:
        exercises = {job.exercise_folder: job.key.exercise_version for job in jobs}
        return cls(jobs[0], tuple(exercises.items()), isolation, sign)


def unfit(needed: Needed, isolated: Callable[[], object] = working_in_bubblewrap) -> str:
    """Why this machine cannot grade for us; empty where it can."""
    job, key = needed.job, needed.job.key
    for name, here, wanted in (("gpututor", __version__, key.gpututor), ("PyTorch", torch_version(), key.torch)):
        if here != wanted:
            return f"it has {name} {here or 'not'}, and {wanted} is needed: one version everywhere"
    if not Path(job.journal, needed.sign).exists():
        return f"it does not see {job.journal}: --out must be a folder that all nodes share, with the same path"
    for folder, version in needed.exercises:
        if not Path(folder).is_dir():
            return f"it does not see {folder}: the course must have the same path on all nodes"
        try:
            if exercise_version(Path(folder)) != version:
                return f"the files in {folder} are not those of the other nodes"
        except CourseError as error:
            return error.title
    try:
        check_journal(job)
        if needed.isolation == "bubblewrap":
            isolated()
    except (UsageError, NotGradableHere) as error:
        return error.title
    return ""


@dataclass(frozen=True)
class Said:
    """What became of some jobs. The results stand in the journal."""

    graded: tuple[str, ...]
    """The names of the keys whose reports stand there."""
    broken: tuple[tuple[str, str], ...] = ()
    """Names of keys, and why there is no report."""
    unfit: str = ""
    """Why this node can grade no more of them; empty where it can."""


def grade_on_node(jobs: Sequence[Job], isolation: IsolationName) -> Said:
    """Grade some jobs for one device, those aside whose reports somebody wrote before."""
    is_real = any(job.gpus for job in jobs)
    # Not as they were found last: nodes may share the file that keeps that, and have different GPUs.
    here = known_devices(refresh=True).accelerators if is_real else ()
    devices = RealDevices(here, partial(probe_devices, isolation))
    return grade_some(jobs, devices, partial(judge_in, isolation))


def grade_some(jobs: Sequence[Job], devices: RealDevices, new_judge: Callable[[], Judge]) -> Said:
    """See `grade_on_node`. What breaks is told at once, and those behind it are not begun: if they all break, each
    after minutes, nobody is to take this node for one that hangs."""
    graded: list[str] = []
    judge = new_judge()
    try:
        for job in jobs:
            device = ""
            try:
                if not is_in_journal(job):
                    with devices.one_for(job) as device:
                        grade_one(judge, job, device)
                graded.append(job.key.name)
            except Broke as broke:
                judge.close()
                devices.look_at(device)
                return Said(tuple(graded), ((job.key.name, str(broke)),), _none_left(job, devices))
            except TutorError as error:  # nothing more can be graded here
                return Said(tuple(graded), unfit=error.title)
    finally:
        judge.close()
    return Said(tuple(graded))


def _none_left(job: Job, devices: RealDevices) -> str:
    """Why no device is left for the job; empty where one is, or it needs none."""
    try:
        with devices.one_for(job):
            return ""
    except NotGradableHere as error:
        return error.title
