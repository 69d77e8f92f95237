"""Gradings of the big class, observed while they run, for `classroom.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpututor.classroom.folder import ClassFolder
from gpututor.processes import descendants

LOOKS_EVERY_S = 1.0
ROWS = 10
KINDS = {"judge": b"gpututor.judge", "fork server": b"fork_server"}
RAY_KINDS = {"raylet": b"raylet/raylet", "Ray's head": b"gcs_server", **KINDS}


@dataclass
class Graded:
    """Observations of a grading of the class."""

    summary: dict[str, object]
    samples: list[tuple[float, int, dict[str, int]]] = field(default_factory=list)
    """(seconds since the start, finished gradings, MiB by kind of process) of each sample."""
    first_verdict_s: float = 0.0
    """Seconds from the command to the first report in the journal."""

    def per_s(self, first: int = 1, last: int | None = None) -> float:
        """Return gradings per second from the time at which `first` gradings were done to the time of `last`."""
        moments = [(seconds, done) for seconds, done, _ in self.samples if done >= first and done <= (last or done)]
        if not moments:
            return 0.0
        (first_s, first_done), (last_s, last_done) = moments[0], moments[-1]
        return (last_done - first_done) / (last_s - first_s) if last_s > first_s else 0.0


def grade(
    source: Path,
    folder: ClassFolder,
    options: Sequence[str],
    kinds: dict[str, bytes] = KINDS,
    meanwhile: Callable[[int], None] = lambda done: None,
) -> Graded:
    """Grade the class, and sample the processes. `meanwhile` is called with the number of finished gradings."""
    command = [sys.executable, "-m", "gpututor", "classroom", "grade", str(source), "--out", str(folder.folder)]
    start, began = time.perf_counter(), time.time()
    log = folder.folder.with_suffix(".txt")
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen([*command, *options, "--json"], stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            graded = Graded({})
            while process.poll() is None:
                done = sum(1 for _ in folder.journal.glob("*/*.json"))
                graded.samples.append((time.perf_counter() - start, done, resident_mib(process.pid, kinds)))
                meanwhile(done)
                time.sleep(LOOKS_EVERY_S)
            assert process.stdout is not None
            graded.summary = json.loads(process.stdout.read() or "{}")
            written = [path.stat().st_mtime for path in folder.journal.glob("*/*.json")]
            graded.first_verdict_s = min(written, default=began) - began
            if process.returncode:
                print(log.read_text(encoding="utf-8"), file=sys.stderr)
                sys.exit(process.returncode)
        finally:
            process.terminate()
    return graded


def resident_mib(program: int, kinds: dict[str, bytes]) -> dict[str, int]:
    """Return the MiB of the program, and of the largest child process of each kind."""
    mib = {"program": mib_of(program), "processes": 0}
    for pid in descendants(os.getpid()):
        mib["processes"] += 1
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        for kind, name in kinds.items():
            if name in command:
                mib[kind] = max(mib.get(kind, 0), mib_of(pid))
    return mib


def mib_of(pid: int) -> int:
    """Return the resident MiB of a process; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def memory_table(graded: Graded, kinds: dict[str, bytes] = KINDS) -> Iterator[str]:
    """Yield the lines of a table of memory."""
    columns = ["program", *kinds, "processes"]
    yield f"\n{'resident memory, MiB':<24}" + "".join(f"{column:>13}" for column in columns)
    busy = [sample for sample in graded.samples if sample[1] and "judge" in sample[2]] or graded.samples
    for row in range(ROWS):
        seconds, done, mib = busy[row * (len(busy) - 1) // (ROWS - 1)]
        yield f"{seconds:7.0f} s {done:>6} done   " + "".join(f"{mib.get(column, 0):>13}" for column in columns)
