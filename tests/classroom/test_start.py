"""From what is asked for to what is to be done: what is refused, what is kept, what is asked of the machine."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.classroom.executors import local
from gpututor.classroom.folder import ClassFolder, locked
from gpututor.classroom.jobs import Options, class_secret
from gpututor.classroom.plan import GradeOptions, GradingPlan, merge_options, plan_grading
from gpututor.classroom.submissions import Class
from gpututor.course.loader import load_course
from gpututor.course.model import Course
from gpututor.errors import NotGradableHere, UsageError
from gpututor.grading.journal import entries, exercise_digest, write_entry
from gpututor.hardware.inventory import Device, Inventory
from tests.support.classes import class_of, report_of
from tests.support.tiny_course import write_course

GPU = Device("cuda:0", "cuda", "NVIDIA H100")
NOTHING = Inventory("2.9.0", (), "2026-01-01T00:00:00+00:00")
ONE_GPU = replace(NOTHING, devices=(GPU,))


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return load_course(write_course(tmp_path / "course", exercises=2))


@pytest.fixture
def folder(tmp_path: Path) -> ClassFolder:
    return ClassFolder(tmp_path / "out")


@pytest.fixture
def found(folder: ClassFolder, course: Course) -> Class:
    first = course.exercises[0].key
    return class_of(folder, [("kim", first, "a"), ("lee", first, "b")], course.folder)


def begun(
    folder: ClassFolder,
    course: Course,
    found: Class,
    asked: GradeOptions | None = None,
    inventory: Inventory = NOTHING,
    works: frozenset[str] | None = frozenset({"cpu"}),
) -> GradingPlan:
    """`works` None: nobody may ask for it."""

    def isolated() -> frozenset[str]:
        assert works is not None
        return works

    options, last = merge_options(asked or GradeOptions(), folder, course)
    return plan_grading(options, last, found, folder, course, isolated, lambda: inventory)


def grade_all(folder: ClassFolder, begun: GradingPlan) -> None:
    for job in begun.jobs:
        write_entry(folder.journal, job.key, report_of(job.key.exercise))


def test_a_class_is_begun_in_bubblewrap_on_what_is_there(folder: ClassFolder, course: Course, found: Class) -> None:
    all_of_it = begun(folder, course, found)
    assert len(all_of_it.jobs) == 2
    assert {job.key.device for job in all_of_it.jobs} == {"virtual"}
    assert all_of_it.options.isolation == "bubblewrap"
    assert folder.secret_file.stat().st_mode & 0o777 == 0o600
    assert Options.read(folder) == all_of_it.options


def test_a_device_that_cannot_be_reached_from_bubblewrap_is_not_used(
    folder: ClassFolder, course: Course, found: Class
) -> None:
    on_gpu = begun(folder, course, found, inventory=ONE_GPU, works=frozenset({"cpu", "cuda:0"}))
    assert {job.key.device for job in on_gpu.jobs} == {"cuda NVIDIA H100"}
    without = begun(folder, course, found, inventory=ONE_GPU)
    assert {job.key.device for job in without.jobs} == {"virtual"}


def test_a_folder_that_holds_gradings_is_gone_on_with_only_when_asked(
    folder: ClassFolder, course: Course, found: Class
) -> None:
    first = begun(folder, course, found)
    write_entry(folder.journal, first.jobs[0].key, report_of(first.jobs[0].key.exercise))
    with pytest.raises(UsageError, match="was graded") as caught:
        merge_options(GradeOptions(), folder, course)
    assert "--resume" in caught.value.advice
    rest = begun(folder, course, found, GradeOptions(resume=True))
    assert (list(rest.jobs), rest.already) == ([first.jobs[1]], 1)
    assert not first.working
    assert rest.working == {course.exercises[0].key}


@pytest.mark.parametrize("broken", [b"", b"\0" * 4096, b'{"key": {"submi', b"{}", b"[]", b"\xff", b"[" * 100_000])
def test_a_broken_file_of_the_journal_is_graded_once_more(
    folder: ClassFolder, course: Course, found: Class, broken: bytes
) -> None:
    first = begun(folder, course, found)
    grade_all(folder, first)
    one, other = (job.key.file_in(folder.journal) for job in first.jobs)
    one.write_bytes(broken)
    assert list(begun(folder, course, found, GradeOptions(resume=True)).jobs) == [first.jobs[0]]
    one.write_bytes(other.read_bytes())  # of another grading
    again = begun(folder, course, found, GradeOptions(resume=True))
    assert list(again.jobs) == [first.jobs[0]]
    grade_all(folder, again)
    assert begun(folder, course, found, GradeOptions(resume=True), works=None).already == 2


def test_a_copied_secret_is_kept_from_others(folder: ClassFolder, course: Course, found: Class) -> None:
    begun(folder, course, found)
    folder.secret_file.chmod(0o644)
    begun(folder, course, found, GradeOptions(resume=True))
    assert folder.secret_file.stat().st_mode & 0o777 == 0o600


def test_a_secret_that_is_lost_is_not_silently_drawn_anew(
    folder: ClassFolder, course: Course, found: Class, tmp_path: Path
) -> None:
    grade_all(folder, begun(folder, course, found))
    copy, other = folder.secret_file.rename(tmp_path / "copy"), tmp_path / "other"
    with pytest.raises(UsageError, match=r"class\.secret is gone") as caught:
        merge_options(GradeOptions(resume=True), folder, course)
    assert "--secret" in caught.value.advice
    other.write_text("0" * 64 + "\n")
    with pytest.raises(UsageError, match="not the secret that the class was graded with"):
        merge_options(GradeOptions(resume=True, secret=other), folder, course)
    assert not folder.secret_file.exists()
    other.rename(folder.secret_file)
    with pytest.raises(UsageError, match="not the secret that the class was graded with"):
        merge_options(GradeOptions(resume=True), folder, course)
    folder.secret_file.unlink()
    assert begun(folder, course, found, GradeOptions(resume=True, secret=copy), works=None).already == 2
    folder.secret_file.unlink()
    folder.options_file.unlink()
    with pytest.raises(UsageError, match=r"class\.secret is gone"):
        merge_options(GradeOptions(resume=True), folder, course)


def test_a_folder_is_made_for_its_owner_only_and_one_that_is_there_is_left_as_it_is(
    folder: ClassFolder, tmp_path: Path
) -> None:
    before = os.umask(0o022)
    try:
        with locked(folder):
            assert folder.folder.stat().st_mode & 0o777 == 0o700
        shared = ClassFolder(tmp_path / "shared")
        shared.folder.mkdir(mode=0o750)
        with locked(shared):
            assert shared.folder.stat().st_mode & 0o777 == 0o750
    finally:
        os.umask(before)


def test_what_killed_graders_left_is_cleared_away_and_nothing_else(folder: ClassFolder) -> None:
    left = [".class.json.a1.part", ".options.json.a1.part", ".troubles.json.a1.part", ".class.secret.a1.part"]
    left += [".classroom.toml.a1.part", "journal/..can-be-written.a1.part", "journal/ab/.ab.json.a1.part"]
    left += ["submissions/ab/.a1.part"]
    kept = ["report/.marks.csv.a1.part", "journal/ab/ab.json", "submissions/ab/ab.py"]
    for name in (*left, *kept):
        (folder.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.folder / name).touch()
    folder.clear_parts()
    assert sorted(
        str(path.relative_to(folder.folder)) for path in folder.folder.rglob("*") if path.is_file()
    ) == sorted(kept)


def test_what_to_do_with_a_broken_class_file_helps(folder: ClassFolder, course: Course, found: Class) -> None:
    grade_all(folder, begun(folder, course, found))
    folder.class_file.write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        folder.read_class()
    assert "Move the file away" in caught.value.advice  # --resume alone reads it, too
    folder.class_file.unlink()
    assert begun(folder, course, found, GradeOptions(resume=True), works=None).already == 2
    assert folder.read_class() == found


def test_a_finished_class_starts_no_process(folder: ClassFolder, course: Course, found: Class) -> None:
    grade_all(folder, begun(folder, course, found, inventory=ONE_GPU, works=frozenset({"cpu", "cuda:0"})))
    again = begun(folder, course, found, GradeOptions(resume=True), inventory=ONE_GPU, works=None)
    assert (list(again.jobs), again.already, again.changed) == ([], 2, "")


def test_going_on_takes_the_options_of_the_last_time(folder: ClassFolder, course: Course, found: Class) -> None:
    grade_all(folder, begun(folder, course, found, GradeOptions(gpu="a100", isolation="process", exercise="twice_1_1")))
    again = begun(folder, course, found, GradeOptions(resume=True), works=None)
    assert (again.options.gpu, again.options.device, again.options.isolation) == ("A100 40", "virtual", "process")
    assert again.options.exercise == course.exercises[0].key
    assert again.already == 2


def test_what_is_not_as_the_last_time_is_told_and_graded_anew(
    folder: ClassFolder, course: Course, found: Class
) -> None:
    grade_all(folder, begun(folder, course, found))
    checks = course.exercises[0].folder / "checks.py"
    checks.write_text(checks.read_text() + "\n# changed\n")
    again = begun(folder, course, found, GradeOptions(resume=True, isolation="process"))
    assert len(again.jobs) == 2
    assert "isolation bubblewrap → process" in again.changed
    assert f"files of {course.exercises[0].key}" in again.changed
    assert len(list(entries(folder.journal))) == 2  # nothing is taken away


def test_the_secret_of_another_machine_gives_the_same_seeds(
    folder: ClassFolder, course: Course, found: Class, tmp_path: Path
) -> None:
    first = begun(folder, course, found)
    other = ClassFolder(tmp_path / "other")
    there = begun(other, course, found, GradeOptions(secret=folder.secret_file))
    assert [(job.key, job.seed) for job in there.jobs] == [(job.key, job.seed) for job in first.jobs]
    (tmp_path / "third").write_text("0" * 64 + "\n")
    with pytest.raises(UsageError, match="another secret"):
        merge_options(GradeOptions(secret=tmp_path / "third"), other, course)
    assert class_secret(other.secret_file) == class_secret(folder.secret_file)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (GradeOptions(device="gpu"), "no device called 'gpu'"),
        (GradeOptions(gpu="no such"), "No GPU is called 'no such'"),
        (GradeOptions(gpu="A100", device="cuda"), "--gpu is for the virtual GPU"),
        (GradeOptions(exercise="nowhere"), "no exercise called 'nowhere'"),
        (GradeOptions(secret=Path("/nowhere/secret")), "there is no such file"),
    ],
)
def test_what_nobody_knows_is_refused_before_anything_is_read(
    folder: ClassFolder, course: Course, asked: GradeOptions, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        merge_options(asked, folder, course)


def test_a_device_that_is_not_here_is_refused(folder: ClassFolder, course: Course, found: Class) -> None:
    with pytest.raises(NotGradableHere, match="no device cuda"):
        begun(folder, course, found, GradeOptions(device="cuda"))


def test_without_bubblewrap_nothing_is_graded_unless_told(
    folder: ClassFolder, course: Course, found: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "import json; print(json.dumps({'works': False, 'title': 'No bwrap.', 'advice': 'Get it.', 'devices': []}))"
    monkeypatch.setattr(local, "python_module", lambda name: [sys.executable, "-c", says])
    options, last = merge_options(GradeOptions(), folder, course)
    with pytest.raises(NotGradableHere, match="No bwrap"):
        plan_grading(options, last, found, folder, course, inventory=lambda: NOTHING)
    assert len(begun(folder, course, found, GradeOptions(isolation="process"), works=None).jobs) == 2


def test_an_exercises_version_is_that_of_all_its_files_whatever_they_are_called(course: Course) -> None:
    folder = course.exercises[0].folder
    before = exercise_digest(folder)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).touch()
    assert exercise_digest(folder) != before


def test_two_graders_do_not_share_a_folder(folder: ClassFolder) -> None:
    with locked(folder), pytest.raises(UsageError, match=f"being graded by process {os.getpid()}"), locked(folder):
        pass
    with locked(folder):
        pass


def test_a_file_system_without_locks_can_be_graded_in(folder: ClassFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    with locked(folder):
        assert (folder.folder / ".lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_goes_with_its_process(folder: ClassFolder) -> None:
    script = (
        "import sys, time; from pathlib import Path; from gpututor.classroom.folder import ClassFolder\n"
        "from gpututor.classroom.folder import locked\n"
        f"with locked(ClassFolder(Path({str(folder.folder)!r}))): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match=f"process {holder.pid}"), locked(folder):
            pass
        holder.kill()
        holder.wait()
    with locked(folder):
        pass
