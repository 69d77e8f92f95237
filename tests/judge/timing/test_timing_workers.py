"""Processes of a submission are suspended while another is timed, and continue afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gpututor.judge.timing import timing_workers
from gpututor.judge.timing.timing_workers import SuspendedProcesses
from gpututor.processes import descendants


@pytest.fixture
def child() -> Iterator[int]:
    """Return the id of a process that only waits."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def others_than(child: int) -> list[int]:
    return sorted({*descendants(os.getpid())} - {child})


def test_others_are_stopped_during_the_block_only_but_no_trusted_ones(child: int) -> None:
    with SuspendedProcesses(os.getpid(), [*others_than(child), child]).suspend():
        assert os.waitpid(child, os.WUNTRACED | os.WNOHANG) == (0, 0)
    with SuspendedProcesses(os.getpid(), others_than(child)).suspend():
        _, status = os.waitpid(child, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
    _, status = os.waitpid(child, os.WCONTINUED)
    assert os.WIFCONTINUED(status)

    def break_in_the_middle() -> None:
        with SuspendedProcesses(os.getpid(), others_than(child)).suspend():
            os.waitpid(child, os.WUNTRACED)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        break_in_the_middle()
    _, status = os.waitpid(child, os.WCONTINUED)
    assert os.WIFCONTINUED(status)
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    with SuspendedProcesses(os.getpid(), others_than(child), lambda: [child]).suspend():
        pass
    assert os.waitpid(child, os.WCONTINUED | os.WNOHANG) == (0, 0)


def test_endless_new_processes_do_not_keep_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[set[int]] = []

    def always_more(self: SuspendedProcesses) -> set[int]:
        views.append(set(range(2**22 + 1, 2**22 + 2 + len(views))))  # above the largest process id
        return views[-1]

    monkeypatch.setattr(SuspendedProcesses, "untrusted", always_more)
    with SuspendedProcesses(os.getpid(), []).suspend():
        assert len(views) == timing_workers.MOST_LOOKS
