"""A class is graded to its end, whatever is killed meanwhile: nothing lost, nothing counted twice, no mark changed."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gpututor import __version__
from gpututor.classroom.executors import start_judge
from gpututor.classroom.executors.local import LocalExecutor, RealDevices
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import Job, read_failures
from gpututor.classroom.work_queue import WorkQueue
from gpututor.cli.main import main
from gpututor.course.loader import load_course, load_exercise
from gpututor.grading import judge_process
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingEvent, ScenarioStarted
from gpututor.grading.journal import Entry, entries, exercise_digest
from gpututor.grading.report import Outcome, Report
from gpututor.hardware.inventory import torch_version
from gpututor.paths import builtin_course
from gpututor.processes import descendants
from tests.support.class_gradings import grading, kill_one_below, output_of, wait_for, written
from tests.support.classes import reports_of
from tests.support.fake_judges import job_of
from tests.support.tiny_course import write_course

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STUDENTS = 100


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the exercises' authors foresaw, each by a student, and much of it twice."""
    folder = tmp_path_factory.mktemp("class")
    chance = random.Random(8)
    exercises = [exercise for exercise in load_course(builtin_course()).exercises if exercise.lesson_number <= 2]
    for number in range(STUDENTS):
        exercise = exercises[number % len(exercises)]
        texts = [exercise.solution, exercise.starter, *(path.read_text() for path in exercise.wrong_solutions)]
        path = folder / f"student_{number:03}" / f"{exercise.slug}.py"
        path.parent.mkdir()
        # A line of its own for most: the same text is graded once.
        path.write_text(chance.choice(texts) + (f"\n# {number}\n" if number % 5 else ""))
    return folder


@pytest.fixture(scope="module")
def undisturbed(handed_in: Path, tmp_path_factory: pytest.TempPathFactory) -> ClassFolder:
    """The same class, with nothing killed."""
    folder = ClassFolder(tmp_path_factory.mktemp("undisturbed"))
    with grading(handed_in, folder) as process:
        assert process.wait() == 0
    return folder


def marks(folder: ClassFolder) -> dict[str, tuple[str, float, int, tuple[tuple[str, str], ...]]]:
    """All that a mark depends on, of everything that was handed in."""

    def mark(report: Report | None) -> tuple[str, float, int, tuple[tuple[str, str], ...]]:
        assert report is not None
        verdicts = tuple((verdict.check, verdict.status.value) for verdict in report.verdicts)
        return report.outcome.value, report.points, report.environment.seed, verdicts

    return {one.source: mark(report) for one, _, report in reports_of(folder)}


def check_whole(folder: ClassFolder, undisturbed: ClassFolder) -> None:
    found = list(entries(folder.journal))
    assert all(isinstance(entry, Entry) for entry in found)
    assert len(found) == written(undisturbed)
    assert read_failures(folder) == {}
    assert not list(folder.journal.glob("*/.*"))
    assert len(marks(folder)) == STUDENTS
    assert marks(folder) == marks(undisturbed)


def with_secret_of(other: ClassFolder) -> tuple[str, str]:
    return "--secret", str(other.secret_file)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_judges_killed_at_random_cost_nothing(handed_in: Path, undisturbed: ClassFolder, tmp_path: Path) -> None:
    """Without bubblewrap: the big class has it, and is killed as a whole, too."""
    folder, chance, killed = ClassFolder(tmp_path), random.Random(8), 0
    with grading(handed_in, folder, *with_secret_of(undisturbed)) as process:
        killed += kill_one_below(process, chance)
        # On with the next when some more are done: a machine that is slow is not killed to death.
        while wait_for(process, folder, chance.randint(4, 16)):
            killed += kill_one_below(process, chance)
        assert process.returncode == 0, output_of(folder).read_text()
    assert killed >= 5
    check_whole(folder, undisturbed)


def test_a_second_machine_comes_to_the_same_byte_for_byte(
    handed_in: Path, undisturbed: ClassFolder, tmp_path: Path
) -> None:
    """One with other folders, another home, other settings, and files that came in another order."""
    copy, folder = tmp_path / "elsewhere" / "the class", ClassFolder(tmp_path / "other out")
    for place in sorted(handed_in.iterdir(), reverse=True):
        shutil.copytree(place, copy / place.name)
        for file in (copy / place.name).iterdir():
            os.utime(file, (1, 1))
    environment = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2"}
    environment |= {name: str(tmp_path / "home") for name in ("HOME", "GPUTUTOR_HOME", "XDG_CACHE_HOME")}
    folder.folder.mkdir()
    more = [*with_secret_of(undisturbed), "--judges", "1"]
    with grading(copy, folder, *more, environment=environment) as process:
        assert process.wait() == 0, output_of(folder).read_text()
    check_whole(folder, undisturbed)
    assert written_files(folder) == written_files(undisturbed)


def written_files(folder: ClassFolder) -> dict[str, bytes]:
    """All that is made of the class's gradings, but how long they took."""
    assert main(["classroom", "report", str(folder.folder), "--all"]) == 0
    files = [path for path in folder.exports.rglob("*") if path.is_file()]
    assert {"marks.csv", "checks.csv", "index.html", "junit.xml"} <= {path.name for path in files}
    found = {str(path.relative_to(folder.exports)): path.read_bytes() for path in files}
    return {name: re.sub(rb' (time|timestamp)="[^"]*"', b"", content) for name, content in found.items()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_says_how_to_go_on_and_leaves_nobody_behind(handed_in: Path, tmp_path: Path, number: int) -> None:
    folder = ClassFolder(tmp_path)
    with grading(handed_in, folder) as process:
        assert wait_for(process, folder, 5), output_of(folder).read_text()
        family = descendants(process.pid)
        process.send_signal(number)
        assert process.wait() == 130
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]
    said = output_of(folder).read_text()
    assert "What is done is kept." in said
    assert "--resume" in said
    assert all(isinstance(entry, Entry) for entry in entries(folder.journal))


def test_a_judge_that_stands_still_is_ended_and_its_submission_graded_by_another(
    exercise_folder: Path, tmp_path: Path
) -> None:
    text = "def twice(number):\n    return 2 * number\n"
    jobs = [replace(real_job(exercise_folder, tmp_path, f"{text}# {number}\n"), timeout_s=30.0) for number in range(4)]
    stood_still: list[GradingClient] = []

    class StandsStillOnce(GradingClient):
        def grade(self, request: GradeRequest) -> Iterator[GradingEvent]:
            for event in super().grade(request):
                if isinstance(event, ScenarioStarted) and not stood_still:
                    stood_still.append(self)
                    assert self._judge is not None
                    os.kill(self._judge.pid, signal.SIGSTOP)
                yield event

    work = WorkQueue(jobs)
    LocalExecutor(1, RealDevices((), dict), StandsStillOnce).run(work)
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
def test_a_submission_that_stops_every_judge_keeps_no_other_from_being_graded(
    exercise_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_process, "SLACK_S", 5.0)
    text = "def twice(number):\n    return 2 * number\n"
    hostile = real_job(exercise_folder, tmp_path, STOPS_ITS_JUDGE)
    jobs = [hostile, *(real_job(exercise_folder, tmp_path, f"{text}# {number}\n") for number in range(3))]
    work = WorkQueue(jobs)
    LocalExecutor(1, RealDevices((), dict), partial(start_judge, "process")).run(work)
    assert work.progress.outcomes == {Outcome.PASSED: 3}
    assert [trouble.key for trouble in work.failures] == [hostile.key]


def real_job(exercise_folder: Path, folder: Path, text: str) -> Job:
    """One that a judge can do."""
    job = job_of(folder, load_exercise(exercise_folder).key, text)
    version = exercise_digest(exercise_folder)
    key = replace(job.key, exercise_version=version, gpututor=__version__, torch=torch_version())
    return replace(job, key=key, exercise_folder=str(exercise_folder))


@pytest.fixture
def exercise_folder(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=1) / "01_lesson_1" / "01_twice_1_1"
