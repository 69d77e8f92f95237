"""The traces of several processes, told together. Each has a clock that began at 0 when it was started.

Ranks that are started together, and meet in collectives, have clocks that agree (see the virtual GPU's collectives).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpututor.trace.chrome import TextFile, write_timelines
from gpututor.trace.columns import Trace, TraceError
from gpututor.trace.files import read_trace
from gpututor.trace.rows import Intervals, Rows, common, merged
from gpututor.trace.summary import WORK

ENDING = ".trace"


@dataclass(frozen=True)
class ProcessTrace:
    """What one process's devices did."""

    name: str
    """Such as `rank 1`; empty where there is only one."""
    trace: Trace


def read_processes(names: Mapping[Path, str]) -> list[ProcessTrace]:
    """The traces of those files that are there, by their names, in that order.

    A process that was killed wrote none, and only its own is missing.
    """
    found = []
    for path, name in names.items():
        try:
            found.append(ProcessTrace(name, read_trace(os.fspath(path))))
        except (FileNotFoundError, TraceError):
            continue
    return found


def idle_in(trace: Trace, times: Sequence[tuple[int, int]]) -> int:
    """Nanoseconds of `times`, (begin, end) each, in which no device of the trace worked."""
    rows = Rows(trace)
    begin, end = np.array(sorted(times), dtype=np.int64).reshape(-1, 2).T
    whole = merged(Intervals(begin, end))
    work = rows.of(*WORK) & ~rows.on("cpu")
    return whole.total - common(whole, merged(rows.intervals(work)))


def write_together(processes: list[ProcessTrace], file: TextFile) -> None:
    """One timeline for Chrome and Perfetto: the host and the devices of each process have groups of their own."""
    write_timelines([(one.name, one.trace) for one in processes], file)
