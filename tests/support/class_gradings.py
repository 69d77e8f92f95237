"""Gradings of whole classes in processes of their own, to be looked into and killed."""

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
from gpututor.processes import descendants

_FAMILIES = (b"gpututor.judge", b"gpututor.worker", b"bwrap")
_LOOKS_EVERY_S = 0.02


@contextlib.contextmanager
def grading(
    handed_in: Path, folder: ClassFolder, *more: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`classroom grade`, by two judges; what it says goes to `output.txt` in the class's folder."""
    command = [sys.executable, "-m", "gpututor", "classroom", "grade", str(handed_in), "--out", str(folder.folder)]
    options = ["--isolation", "process", "--device", "virtual", "--judges", "2"]
    with (
        output_of(folder).open("ab") as output,
        subprocess.Popen(
            [*command, *options, *more], stdout=output, stderr=output, env={**os.environ, **(environment or {})}
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def output_of(folder: ClassFolder) -> Path:
    return folder.folder / "output.txt"


def written(folder: ClassFolder) -> int:
    """How many gradings are in the journal."""
    return len(list(folder.journal.glob("*/*.json")))


def wait_for(process: subprocess.Popen[bytes], folder: ClassFolder, more: int) -> bool:
    """Whether it is still on when so many more are written."""
    until = written(folder) + more
    while process.poll() is None and written(folder) < until:
        time.sleep(_LOOKS_EVERY_S)
    return process.poll() is None


def kill_one_below(process: subprocess.Popen[bytes], chance: random.Random) -> bool:
    """Kill one of its judges, of their workers, or what isolates one of these. Whether there was one."""
    families = [_below(process, name) for name in _FAMILIES]
    if victims := [family for family in families if family]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(chance.choice(victims)), signal.SIGKILL)
            return True
    return False


def _below(process: subprocess.Popen[bytes], module: bytes) -> list[int]:
    found = []
    for pid in descendants(process.pid):
        with contextlib.suppress(OSError):
            if module in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found
