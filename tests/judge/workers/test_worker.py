"""A worker that takes too much of the machine is stopped with a verdict, and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.report import Outcome
from gpututor.judge.workers import worker
from gpututor.judge.workers.worker import make_scratch, remove_scratch
from gpututor.processes import descendants
from gpututor.protocol import messages
from tests.support.gradings import Grade, judge_of, time_limit
from tests.support.timeouts import wait_for
from tests.support.tiny_course import RIGHT

# Doubles nine times only: without an end, a failing test would take the machine down.
FORKS = "import os, signal\ndef twice(number):\n    for _ in range(9):\n        os.fork()\n    signal.pause()\n"
THREADS = (
    "import signal, threading\ndef twice(number):\n    for _ in range(2000):\n"
    "        threading.Thread(target=threading.Event().wait, daemon=True).start()\n    signal.pause()\n"
)
MEMORY = "def twice(number):\n    held = []\n    while True:\n        held.append(bytearray(b'x') * (1 << 26))\n"
SPREAD_MEMORY = (
    "import os, signal\ndef twice(number):\n    for _ in range(20):\n        if os.fork() == 0:\n"
    "            held = bytearray(b'x') * (1 << 29)\n            signal.pause()\n    signal.pause()\n"
)
FILES = (
    "def twice(number):\n    at = 0\n    while True:\n        at += 1\n"
    "        with open(f'{at}.bin', 'wb') as file:\n            file.write(bytes(1 << 24))\n"
)
SMALL_FILES = "def twice(number):\n    at = 0\n    while True:\n        at += 1\n        open(str(at), 'w').close()\n"


@pytest.mark.parametrize(
    ("bomb", "outcome", "unit"),
    [
        (FORKS, Outcome.ERROR, ""),
        pytest.param(THREADS, Outcome.ERROR, "", marks=pytest.mark.long),
        pytest.param(MEMORY, Outcome.OUT_OF_MEMORY, "GiB", marks=pytest.mark.long),
        pytest.param(SPREAD_MEMORY, Outcome.OUT_OF_MEMORY, "GiB", marks=pytest.mark.long),
        (FILES, Outcome.ERROR, "MiB"),
        (SMALL_FILES, Outcome.ERROR, "10,000"),
    ],
    ids=["forks", "threads", "memory", "memory of many", "large files", "small files"],
)
def test_a_bomb_ends_with_a_verdict_and_leaves_nothing(
    client: GradingClient, grade: Grade, exercise_folder: Path, bomb: str, outcome: Outcome, unit: str
) -> None:
    time_limit(exercise_folder, 60)  # 4 GiB take long on a busy machine
    report = grade(bomb)
    assert report.outcome is outcome
    first = report.first_failure
    assert first is not None
    assert first.check == "runs"
    assert unit in first.expected
    judge = judge_of(client)
    wait_for(lambda: len(descendants(judge)) <= 2)  # the fork server, and its next child
    assert grade(RIGHT).outcome is Outcome.PASSED


@pytest.mark.long
def test_forks_that_share_memory_are_no_bomb(grade: Grade, exercise_folder: Path) -> None:
    time_limit(exercise_folder, 60)  # 3 GiB take long on a busy machine
    report = grade(
        "import os, threading\n\n\ndef twice(number):\n    held = bytearray(b'x') * (1 << 30)\n    born = []\n"
        "    for _ in range(8):\n        born.append(os.fork())\n        if not born[-1]:\n"
        "            threading.Event().wait(0.5)\n            os._exit(0)\n"
        "    for pid in born:\n        os.waitpid(pid, 0)\n    return 2 * number\n"
    )
    assert report.outcome is Outcome.PASSED


def test_a_pool_of_threads_is_no_bomb(grade: Grade) -> None:
    report = grade(
        "from concurrent.futures import ThreadPoolExecutor\n\n\ndef twice(number):\n"
        "    with ThreadPoolExecutor(64) as pool:\n        return max(pool.map(lambda _: 2 * number, range(500)))\n"
    )
    assert report.outcome is Outcome.PASSED


def test_a_folder_that_cannot_be_read_is_over_the_limit(tmp_path: Path) -> None:
    """Use a path that is too long for a system call: a folder without permissions fails alike, but not for root."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folder = os.open(scratch, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    assert worker.scratch_use(scratch)[1] > messages.SCRATCH_FILES
    worker.remove_scratch(scratch)
    assert not scratch.exists()


def test_scratch_and_resources_are_looked_at_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "deep" / "deeper" / "file").write_bytes(b"x" * (1 << 20))
    (tmp_path / "link").symlink_to("/usr")
    assert worker.scratch_use(tmp_path) == (1 << 20, 4)
    monkeypatch.setattr(worker, "SCRATCH_FILES", 2)
    assert worker.scratch_use(tmp_path)[1] == 3
    looks_at: list[int] = []

    def measure(root: int) -> worker.ResourceUsage:
        looks_at.append(root)
        return worker.ResourceUsage(0, 1, 1)

    times = iter([0.0, 10.0, 10.4, 10.6, 10.6])  # a look that takes 10 s; too early for another; now
    monkeypatch.setattr("gpututor.judge.workers.worker.time.monotonic", lambda: 1000.0 + next(times))
    monkeypatch.setattr(worker, "measure_usage", measure)
    monkeypatch.setattr(worker, "SLOWEST_LOOK_EVERY_S", 0.5)
    monkeypatch.setattr(worker, "LOOK_EVERY_S", 0.05)
    monitor = worker.ResourceMonitor(1, None)
    looks_at.clear()
    for looks in (1, 1, 2):
        monitor.look()
        assert len(looks_at) == looks
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 20}.__getitem__)
    assert messages.resident_limit_bytes() == 2 << 30


def test_deep_unreadable_and_missing_scratch_folders_are_removed(tmp_path: Path) -> None:
    folder, above = tmp_path / "scratch", os.getcwd()
    folder.mkdir()
    try:
        os.chdir(folder)
        for _ in range(600):
            os.mkdir("a" * 20)
            os.chdir("a" * 20)
        Path("file").touch()
    finally:
        os.chdir(above)
    remove_scratch(folder)
    assert not folder.exists()
    folder = make_scratch()
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    (folder / "closed").chmod(0)
    remove_scratch(folder)
    assert not folder.exists()
    tmp_path.chmod(0o755)
    remove_scratch(tmp_path / "gone")
    assert tmp_path.stat().st_mode & 0o777 == 0o755
