"""A submission's processes are stopped while something else is timed, and go on afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gpututor.judge.timing import timing_workers
from gpututor.judge.timing.timing_workers import SuspendedProcesses, family


@pytest.fixture
def child() -> Iterator[int]:
    """A process of its own that only waits; nobody else's may be stopped."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def others_than(child: int) -> list[int]:
    return sorted(family(os.getpid()) - {os.getpid(), child})


def test_others_are_stopped_for_the_time_of_the_block_and_go_on_after_it(child: int) -> None:
    with SuspendedProcesses(os.getpid(), others_than(child)).suspend():
        _, status = os.waitpid(child, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
    _, status = os.waitpid(child, os.WCONTINUED)
    assert os.WIFCONTINUED(status)


def test_they_go_on_when_the_block_breaks(child: int) -> None:
    def break_in_the_middle() -> None:
        with SuspendedProcesses(os.getpid(), others_than(child)).suspend():
            os.waitpid(child, os.WUNTRACED)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        break_in_the_middle()
    _, status = os.waitpid(child, os.WCONTINUED)
    assert os.WIFCONTINUED(status)


def test_trusted_processes_are_left_alone(child: int) -> None:
    with SuspendedProcesses(os.getpid(), [*others_than(child), child]).suspend():
        assert os.waitpid(child, os.WUNTRACED | os.WNOHANG) == (0, 0)


def test_processes_that_are_born_without_end_do_not_keep_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[set[int]] = []

    def always_more(self: SuspendedProcesses) -> set[int]:
        looks.append(set(range(2**22 + 1, 2**22 + 2 + len(looks))))  # above the largest process id
        return looks[-1]

    monkeypatch.setattr(SuspendedProcesses, "untrusted", always_more)
    with SuspendedProcesses(os.getpid(), []).suspend():
        assert len(looks) == timing_workers.MOST_LOOKS


def test_who_stands_still_already_does_not_go_on_with_the_others(child: int) -> None:
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    with SuspendedProcesses(os.getpid(), others_than(child), lambda: [child]).suspend():
        pass

    assert os.waitpid(child, os.WCONTINUED | os.WNOHANG) == (0, 0)
