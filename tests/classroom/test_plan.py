"""The grading plan: secrets, options, the journal, the lock, and what is graded again."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor import __version__
from gpututor.classroom.executors import local
from gpututor.classroom.folder import ClassFolder, locked
from gpututor.classroom.jobs import Options, class_secret
from gpututor.classroom.plan import GradeOptions, GradingPlan, merge_options, plan_grading
from gpututor.classroom.submissions import Class
from gpututor.course.loader import load_course
from gpututor.course.model import Course
from gpututor.errors import NotGradableHere, UsageError
from gpututor.grading.journal import NOT_OF_THE_GRADER, entries, exercise_digest, grader_version, write_entry
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
def class_(folder: ClassFolder, course: Course) -> Class:
    first = course.exercises[0].key
    return class_of(folder, [("kim", first, "a"), ("lee", first, "b")], course.folder)


Plan = Callable[..., GradingPlan]


@pytest.fixture
def plan(folder: ClassFolder, course: Course, class_: Class) -> Plan:
    """Plan the grading of the class. `works`: devices in bubblewrap; None if the plan must not probe them."""

    def do(
        given: GradeOptions | None = None,
        inventory: Inventory = NOTHING,
        works: frozenset[str] | None = frozenset({"cpu"}),
        folder: ClassFolder = folder,
    ) -> GradingPlan:
        def isolated() -> frozenset[str]:
            assert works is not None
            return works

        options, last = merge_options(given or GradeOptions(), folder, course)
        return plan_grading(options, last, class_, folder, course, isolated, lambda: inventory)

    return do


RESUME = GradeOptions(resume=True)


def grade_all(plan: GradingPlan) -> None:
    for job in plan.jobs:
        write_entry(Path(job.journal), job.key, report_of(job.key.exercise))


def test_a_new_class_is_graded_in_bubblewrap_with_a_private_secret(folder: ClassFolder, plan: Plan) -> None:
    all_of_it = plan()
    assert len(all_of_it.jobs) == 2
    assert {job.key.device for job in all_of_it.jobs} == {"virtual"}
    assert all_of_it.options.isolation == "bubblewrap"
    assert folder.secret_file.stat().st_mode & 0o777 == 0o600
    assert Options.read(folder) == all_of_it.options
    plan()
    folder.secret_file.chmod(0o644)
    plan(RESUME)
    assert folder.secret_file.stat().st_mode & 0o777 == 0o600


def test_a_broken_device_is_not_used_and_a_finished_class_starts_nothing(plan: Plan) -> None:
    on_gpu = plan(inventory=ONE_GPU, works=frozenset({"cpu", "cuda:0"}))
    assert {job.key.device for job in on_gpu.jobs} == {"cuda NVIDIA H100"}
    without = plan(inventory=ONE_GPU)
    assert {job.key.device for job in without.jobs} == {"virtual"}
    with pytest.raises(NotGradableHere, match="no device cuda"):
        plan(GradeOptions(device="cuda"))
    grade_all(plan(inventory=ONE_GPU, works=frozenset({"cpu", "cuda:0"})))
    again = plan(RESUME, inventory=ONE_GPU, works=None)
    assert (list(again.jobs), again.already, again.changed) == ([], 2, "")


def test_a_folder_with_gradings_needs_resume(folder: ClassFolder, course: Course, plan: Plan) -> None:
    first = plan()
    write_entry(folder.journal, first.jobs[0].key, report_of(first.jobs[0].key.exercise))
    with pytest.raises(UsageError) as raised:
        merge_options(GradeOptions(), folder, course)
    assert "--resume" in raised.value.advice
    rest = plan(RESUME)
    assert (list(rest.jobs), rest.already) == ([first.jobs[1]], 1)
    assert not first.working
    assert rest.working == {course.exercises[0].key}


@pytest.mark.parametrize("broken", [b"", b"\0" * 4096, b'{"key": {"submi', b"{}", b"[]", b"\xff", b"[" * 100_000])
def test_a_broken_journal_entry_is_graded_again(folder: ClassFolder, broken: bytes, plan: Plan) -> None:
    first = plan()
    grade_all(first)
    entry, other = (job.key.file_in(folder.journal) for job in first.jobs)
    entry.write_bytes(broken)
    assert list(plan(RESUME).jobs) == [first.jobs[0]]
    entry.write_bytes(other.read_bytes())  # of another grading
    again = plan(RESUME)
    assert list(again.jobs) == [first.jobs[0]]
    grade_all(again)
    assert plan(RESUME, works=None).already == 2


def test_a_lost_secret_is_not_replaced_silently(
    folder: ClassFolder, course: Course, tmp_path: Path, plan: Plan
) -> None:
    grade_all(plan())
    copy, other = folder.secret_file.rename(tmp_path / "copy"), tmp_path / "other"
    with pytest.raises(UsageError, match=r"class\.secret") as raised:
        merge_options(RESUME, folder, course)
    assert "--secret" in raised.value.advice
    other.write_text("0" * 64 + "\n")
    with pytest.raises(UsageError, match="is not the secret"):
        merge_options(GradeOptions(resume=True, secret=other), folder, course)
    assert not folder.secret_file.exists()
    other.rename(folder.secret_file)
    with pytest.raises(UsageError, match="is not the secret"):
        merge_options(RESUME, folder, course)
    folder.secret_file.unlink()
    assert plan(GradeOptions(resume=True, secret=copy), works=None).already == 2
    folder.secret_file.unlink()
    folder.options_file.unlink()
    with pytest.raises(UsageError, match=r"class\.secret"):
        merge_options(RESUME, folder, course)


def test_a_new_folder_is_private(folder: ClassFolder, tmp_path: Path) -> None:
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


def test_clear_parts_removes_only_parts_of_killed_graders(folder: ClassFolder) -> None:
    killed = 2**22 + 1  # above the largest id of a process
    left = [f"{name}.{killed}-a1.part" for name in (".class.json", "journal/ab/.ab.json", "submissions/ab/.a1.py")]
    kept = [f"report/.marks.csv.{os.getpid()}-a1.part", "journal/ab/ab.json", "submissions/ab/ab.py"]
    for name in (*left, *kept):
        (folder.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.folder / name).touch()
    folder.clear_parts()
    assert sorted(
        str(path.relative_to(folder.folder)) for path in folder.folder.rglob("*") if path.is_file()
    ) == sorted(kept)


def test_the_advice_for_a_broken_class_file_works(folder: ClassFolder, class_: Class, plan: Plan) -> None:
    grade_all(plan())
    folder.class_file.write_bytes(b"")
    with pytest.raises(UsageError) as raised:
        folder.read_class()
    assert "Move the file away" in raised.value.advice  # --resume alone reads it, too
    folder.class_file.unlink()
    assert plan(RESUME, works=None).already == 2
    assert folder.read_class() == class_


def test_a_class_file_without_left_out_lines_can_be_read(folder: ClassFolder, class_: Class) -> None:
    folder.make()
    folder.write_class(class_)
    data = json.loads(folder.class_file.read_text())
    for submission in data["handed_in"]:
        del submission["left_out"]
    folder.class_file.write_text(json.dumps(data))
    assert folder.read_class() == class_


def test_resume_keeps_the_options_of_the_last_run(course: Course, plan: Plan) -> None:
    grade_all(plan(GradeOptions(gpu="a100", isolation="process", exercise="twice_1_1")))
    again = plan(RESUME, works=None)
    assert (again.options.gpu, again.options.device, again.options.isolation) == ("A100 40", "virtual", "process")
    assert again.options.exercise == course.exercises[0].key
    assert again.already == 2


def test_changes_since_the_last_run_are_listed_and_graded_again(
    folder: ClassFolder, course: Course, plan: Plan
) -> None:
    grade_all(plan())
    checks = course.exercises[0].folder / "checks.py"
    checks.write_text(checks.read_text() + "\n# changed\n")
    again = plan(GradeOptions(resume=True, isolation="process"))
    assert len(again.jobs) == 2
    assert "isolation bubblewrap → process" in again.changed
    assert f"files of {course.exercises[0].key}" in again.changed
    assert len(list(entries(folder.journal))) == 2  # old entries stay


def test_another_state_of_gpututor_grades_anew(
    folder: ClassFolder, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plan()
    write_entry(folder.journal, first.jobs[0].key, report_of(first.jobs[0].key.exercise))
    before = first.options.gpututor
    assert before.startswith(f"{__version__} ")
    assert not first.grader_changed
    monkeypatch.setattr("gpututor.classroom.plan.grader_version", lambda: f"{__version__} changed")
    again = plan(RESUME)
    assert (len(again.jobs), again.anew, again.already) == (2, 1, 0), "the second one was not graded before"
    assert again.grader_changed == f"{before} → {__version__} changed"
    assert not again.changed, "it has a notice of its own"
    grade_all(again)
    monkeypatch.undo()
    back = plan(RESUME)
    assert (len(back.jobs), back.anew, back.already) == (1, 1, 1), "the journal has the first one"


def test_the_graders_digest_covers_all_that_the_judge_imports(tmp_path: Path) -> None:
    package = tmp_path / "gpututor"
    for name in ("errors.py", "checks/value.py", "hardware/gpus.toml"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("a = 1\n")
    before = grader_version(package)
    for name in ("app/main.py", "classroom/marks.py", "exercises/01_a/checks.py", "doctor.py", "checks/value.pyc"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("a = 1\n")
    assert grader_version(package) == before
    versions = {before}
    for name in ("errors.py", "checks/value.py", "hardware/gpus.toml"):
        (package / name).write_text("a = 2\n")
        versions.add(grader_version(package))
    (package / "checks" / "value.py").rename(package / "checks" / "other.py")
    versions.add(grader_version(package))
    assert len(versions) == 5
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    above = {name.strip() for layer in layers[: layers.index("judge")] for name in layer.split("|")}
    assert above | {"exercises"} == NOT_OF_THE_GRADER


def test_a_copied_secret_gives_the_same_seeds(folder: ClassFolder, course: Course, tmp_path: Path, plan: Plan) -> None:
    first = plan()
    other = ClassFolder(tmp_path / "other")
    there = plan(GradeOptions(secret=folder.secret_file), folder=other)
    assert [(job.key, job.seed) for job in there.jobs] == [(job.key, job.seed) for job in first.jobs]
    (tmp_path / "third").write_text("0" * 64 + "\n")
    with pytest.raises(UsageError, match="different secrets"):
        merge_options(GradeOptions(secret=tmp_path / "third"), other, course)
    assert class_secret(other.secret_file) == class_secret(folder.secret_file)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (GradeOptions(device="gpu"), "'gpu'"),
        (GradeOptions(gpu="no such"), "'no such'"),
        (GradeOptions(gpu="A100", device="cuda"), "--gpu"),
        (GradeOptions(exercise="nowhere"), "'nowhere'"),
        (GradeOptions(secret=Path("/nowhere/secret")), "/nowhere/secret"),
    ],
)
def test_unknown_values_are_refused_before_the_class_is_read(
    folder: ClassFolder, course: Course, options: GradeOptions, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        merge_options(options, folder, course)


def test_without_bubblewrap_only_process_isolation_grades(
    folder: ClassFolder, course: Course, class_: Class, monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    says = "import json; print(json.dumps({'works': False, 'title': 'No bwrap.', 'advice': 'Get it.', 'devices': []}))"
    monkeypatch.setattr(local, "python_module", lambda name: [sys.executable, "-c", says])
    options, last = merge_options(GradeOptions(), folder, course)
    with pytest.raises(NotGradableHere, match="No bwrap"):
        plan_grading(options, last, class_, folder, course, inventory=lambda: NOTHING)
    assert len(plan(GradeOptions(isolation="process"), works=None).jobs) == 2


def test_the_digest_includes_files_with_undecodable_names(course: Course) -> None:
    folder = course.exercises[0].folder
    before = exercise_digest(folder)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).touch()
    assert exercise_digest(folder) != before


def test_the_lock_names_its_process_and_ends_with_it(folder: ClassFolder) -> None:
    with locked(folder), pytest.raises(UsageError, match=f"being graded by process {os.getpid()}"), locked(folder):
        pass
    with locked(folder):
        pass
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


def test_a_file_system_without_locks_works(folder: ClassFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    with locked(folder):
        assert (folder.folder / ".lock").read_text() == f"{os.getpid()}\n"
