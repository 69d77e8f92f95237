"""Gradings of whole classes in child processes that tests inspect and kill."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import read_failures
from gpututor.grading.journal import JournalEntry, entries
from gpututor.grading.report import Report
from gpututor.processes import descendants
from tests.support.classes import reports_of

_FAMILIES = (b"gpututor.judge", b"gpututor.worker", b"bwrap")
_POLL_S = 0.02


@contextlib.contextmanager
def grading(
    source: Path, folder: ClassFolder, *more: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `classroom grade` with two judges and its output in `output_of(folder)`.

    It runs in a folder with a file called `gpututor.py`, which no process may import.
    """
    here = folder.folder / "here"
    here.mkdir(exist_ok=True)
    (here / "gpututor.py").write_text("raise SystemExit('imported from the current folder')\n")
    command = [sys.executable, "-P", "-m", "gpututor", "classroom", "grade", str(source), "--out", str(folder.folder)]
    command += ["--isolation", "process", "--device", "virtual", "--judges", "2", *more]
    with (
        output_of(folder).open("ab") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, cwd=here, env={**os.environ, **(environment or {})}
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def output_of(folder: ClassFolder) -> Path:
    return folder.folder / "output.txt"


def written(folder: ClassFolder) -> int:
    """Return the number of gradings in the journal."""
    return len(list(folder.journal.glob("*/*.json")))


def marks(folder: ClassFolder) -> dict[str, object]:
    """Return everything that a mark depends on, by the source of the submission."""

    def mark(report: Report | None) -> object:
        assert report is not None
        verdicts = [(verdict.check, verdict.status) for verdict in report.verdicts]
        return report.outcome, report.points, report.environment.seed, verdicts

    return {submission.source: mark(report) for submission, _, report in reports_of(folder)}


def check_graded(folder: ClassFolder, undisturbed: ClassFolder, students: int) -> None:
    """Check that the gradings are whole, and the same as in the other folder."""
    files = list(entries(folder.journal))
    assert all(isinstance(entry, JournalEntry) for entry in files)
    assert len(files) == written(undisturbed)
    assert not list(folder.journal.glob("**/.*"))
    assert read_failures(folder) == {}
    assert marks(folder) == marks(undisturbed)
    assert len(marks(folder)) == students


def wait_for(process: subprocess.Popen[bytes], folder: ClassFolder, more: int) -> bool:
    """Wait for `more` gradings; return True if the process still runs then."""
    until = written(folder) + more
    while process.poll() is None and written(folder) < until:
        time.sleep(_POLL_S)
    return process.poll() is None


def kill_one_below(process: subprocess.Popen[bytes], chance: random.Random) -> bool:
    """Kill a judge, a worker or a `bwrap` below the process; return False if there is none."""
    families = [pids_below(process.pid, name) for name in _FAMILIES]
    if victims := [family for family in families if family]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(chance.choice(victims)), signal.SIGKILL)
            return True
    return False


def pids_below(parent: int, words: bytes) -> list[int]:
    """Return the processes below another whose command lines contain `words`."""
    pids = []
    for pid in descendants(parent):
        with contextlib.suppress(OSError):
            if words in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.append(pid)
    return pids
