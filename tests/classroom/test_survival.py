"""A class is graded to the end whatever is killed: no grading is lost or repeated, and no mark changes."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gpututor.classroom.executors import start_judge
from gpututor.classroom.executors.local import LocalExecutor, RealDevices
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import WorkQueue
from gpututor.cli.main import main
from gpututor.course.loader import load_course, load_exercise
from gpututor.grading import judge_process
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingEvent, ScenarioStarted
from gpututor.grading.journal import JournalEntry, entries, exercise_digest, grader_version
from gpututor.grading.report import Outcome
from gpututor.hardware.inventory import torch_version
from gpututor.paths import builtin_course
from gpututor.processes import descendants
from tests.support import timeouts
from tests.support.class_gradings import check_graded, grading, output_of, wait_for
from tests.support.fake_judges import job_of
from tests.support.tiny_course import RIGHT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STUDENTS = 100


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Solutions, starters and wrong solutions of the course, some of them twice."""
    folder = tmp_path_factory.mktemp("class")
    chance = random.Random(8)
    exercises = [exercise for exercise in load_course(builtin_course()).exercises if exercise.lesson_number <= 2]
    for number in range(STUDENTS):
        exercise = exercises[number % len(exercises)]
        texts = [exercise.solution, exercise.starter, *(path.read_text() for path in exercise.wrong_solutions)]
        path = folder / f"student_{number:03}" / f"{exercise.slug}.py"
        path.parent.mkdir()
        # Most texts get their own last line; equal texts are graded once.
        path.write_text(chance.choice(texts) + (f"\n# {number}\n" if number % 5 else ""))
    return folder


@pytest.fixture(scope="module")
def undisturbed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> ClassFolder:
    """The gradings of the class when nothing is killed."""
    folder = ClassFolder(tmp_path_factory.mktemp("undisturbed"))
    with grading(source, folder) as process:
        assert process.wait() == 0
    return folder


def test_a_second_machine_writes_the_same_reports_byte_for_byte(
    source: Path, undisturbed: ClassFolder, tmp_path: Path
) -> None:
    """The second machine has other folders, homes, settings, and another order of files."""
    copy, folder = tmp_path / "elsewhere" / "the class", ClassFolder(tmp_path / "other out")
    for place in sorted(source.iterdir(), reverse=True):
        shutil.copytree(place, copy / place.name)
        for file in (copy / place.name).iterdir():
            os.utime(file, (1, 1))
    environment = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2"}
    environment |= {name: str(tmp_path / "home") for name in ("HOME", "GPUTUTOR_HOME", "XDG_CACHE_HOME")}
    folder.folder.mkdir()
    more = ["--secret", str(undisturbed.secret_file), "--judges", "1"]
    with grading(copy, folder, *more, environment=environment) as process:
        assert process.wait() == 0, output_of(folder).read_text()
    check_graded(folder, undisturbed, STUDENTS)
    assert written_files(folder) == written_files(undisturbed)


def written_files(folder: ClassFolder) -> dict[str, bytes]:
    """Return all reports on the class, without times."""
    assert main(["classroom", "report", str(folder.folder), "--all"]) == 0
    files = [path for path in folder.exports.rglob("*") if path.is_file()]
    assert {"marks.csv", "checks.csv", "index.html", "junit.xml"} <= {path.name for path in files}
    return {
        str(path.relative_to(folder.exports)): re.sub(rb' (time|timestamp)="[^"]*"', b"", path.read_bytes())
        for path in files
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_process_and_names_resume(source: Path, tmp_path: Path, number: int) -> None:
    folder = ClassFolder(tmp_path)
    with grading(source, folder) as process:
        assert wait_for(process, folder, 5), output_of(folder).read_text()
        family = descendants(process.pid)
        process.send_signal(number)
        assert process.wait() == 130
        timeouts.wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family))
    assert "--resume" in output_of(folder).read_text()
    assert all(isinstance(entry, JournalEntry) for entry in entries(folder.journal))


def test_a_stopped_judge_is_killed_and_another_grades_its_submission(exercise_folder: Path, tmp_path: Path) -> None:
    jobs = [replace(real_job(exercise_folder, tmp_path, f"{RIGHT}# {number}\n"), timeout_s=30.0) for number in range(4)]
    stopped: list[GradingClient] = []

    class StopsOnce(GradingClient):
        def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
            for event in super().grade(request):
                if isinstance(event, ScenarioStarted) and not stopped:
                    stopped.append(self)
                    assert self._judge is not None
                    os.kill(self._judge.pid, signal.SIGSTOP)
                yield event

    work = WorkQueue(jobs)
    LocalExecutor(1, RealDevices((), dict), StopsOnce).run(work)
    assert work.progress.outcomes == {Outcome.PASSED: 4}
    assert work.progress.retried == 1
    assert all(job.is_graded for job in jobs)


STOPS_ITS_JUDGE = """
import os, signal
with open(f"/proc/{os.getppid()}/stat") as status:
    above = int(status.read().rpartition(")")[2].split()[1])
for process in (above, os.getppid()):
    os.kill(process, signal.SIGSTOP)


def twice(number):
    return 2 * number
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for its parents in /proc")
def test_a_submission_that_stops_every_judge_fails_alone(
    exercise_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_process, "SLACK_S", 5.0)
    hostile = real_job(exercise_folder, tmp_path, STOPS_ITS_JUDGE)
    jobs = [hostile, *(real_job(exercise_folder, tmp_path, f"{RIGHT}# {number}\n") for number in range(3))]
    work = WorkQueue(jobs)
    LocalExecutor(1, RealDevices((), dict), partial(start_judge, "process")).run(work)
    assert work.progress.outcomes == {Outcome.PASSED: 3}
    assert [failure.key for failure in work.failures] == [hostile.key]


def real_job(exercise_folder: Path, folder: Path, text: str) -> Job:
    """Return a job for a real judge."""
    job = job_of(folder, load_exercise(exercise_folder).key, text)
    version = exercise_digest(exercise_folder)
    key = replace(job.key, exercise_version=version, gpututor=grader_version(), torch=torch_version())
    return replace(job, key=key, exercise_folder=str(exercise_folder))
