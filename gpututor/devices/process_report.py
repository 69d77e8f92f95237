"""Reports of a process's devices, written to a file when the process ends, for `gpututor trace`.

Each process writes its own report into one folder. Child processes find the `TraceRequest` in their environment.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpututor.devices.programs import Learners
from gpututor.devices.recorder import Recorder

if TYPE_CHECKING:
    from gpututor.devices.virtual.machine import VirtualMachine
    from gpututor.trace.advice_rules import Rates

VARIABLE = "GPUTUTOR_TRACE"
"""The environment variable that holds a `TraceRequest` as JSON, for children."""
LIMIT = 10_000_000
"""Maximum number of stored events, 80 bytes each. Later events are only counted."""
_COMMUNICATOR = "gpututor.devices.virtual.distributed.communicator"
"""The module that talks to other ranks. Not imported here: a program without ranks does not need it."""
FIRST = "program.json"
"""The report of the program's own process."""


@dataclass(frozen=True)
class TraceRequest:
    """A request for reports."""

    folder: str
    """The folder of the reports: `FIRST`, and `PROCESS.json` for each child; with a timeline, `.trace` files too."""
    learners: Learners
    chrome: bool
    """True if a timeline is requested too."""

    @classmethod
    def from_json(cls, text: str) -> TraceRequest:
        fields = json.loads(text)
        return cls(**{**fields, "learners": Learners(**fields["learners"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def requested() -> ProcessReport | None:
    """Return this process's report, if the process that started it requested one."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    request = TraceRequest.from_json(text)
    # A fork server may outlive the folder. Each of its children has its own process id.
    return ProcessReport(request, f"{os.getpid()}.json") if os.path.isdir(request.folder) else None


class ProcessReport:
    def __init__(self, request: TraceRequest, name: str = FIRST) -> None:
        self.recorder = Recorder(is_learners=request.learners, limit=LIMIT)
        self._request = request
        self._path = os.path.join(request.folder, name)
        self._process = os.getpid()
        self._began_s = time.perf_counter()
        self._error = ""
        self._has_forked = False
        self._machine: VirtualMachine | None = None
        self._device: dict[str, Any] = {}

    def begin(self, kind: str, name: str, machine: VirtualMachine | None) -> None:
        """Store the device, and write the report when this process ends."""
        self._machine = machine
        gpus = () if machine is None else machine.gpus
        self._device = {
            "kind": kind,
            "name": name,
            "count": 1 if machine is None else len(gpus),
            "memory_bytes": gpus[0].memory.total if gpus else None,
        }
        atexit.register(self.end)
        # A forked child, such as a DataLoader worker, writes no report. The report says that there was a child.
        os.register_at_fork(after_in_parent=partial(setattr, self, "_has_forked", True))
        self._began_s = time.perf_counter()

    def failed(self, error: BaseException) -> None:
        """Store the first line of the error that the user sees."""
        with contextlib.suppress(Exception):  # formatting the message may run the program's code
            self._error = traceback.format_exception_only(error)[-1].strip().partition("\n")[0]

    def end(self) -> None:
        """Write the report, except in a forked child."""
        if os.getpid() != self._process:
            return
        with contextlib.suppress(ValueError):  # not the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # the process is ending already, and writes its report
        try:
            report = self._report()
        except Exception:
            report = {"broken": traceback.format_exc()}
        with contextlib.suppress(FileNotFoundError):  # a child may outlive the folder of the reports
            write(self._path, report)

    def _report(self) -> dict[str, Any]:
        """Return the device, the times, and the summary as data and as text."""
        import torch

        from gpututor.trace.export import ENDING, idle_in
        from gpututor.trace.serialization import write_trace
        from gpututor.trace.summary import summary
        from gpututor.trace.text import describe

        machine, real_s = self._machine, time.perf_counter() - self._began_s
        host_ns = None if machine is None else machine.clock.host.end().time
        trace = self.recorder.complete()
        self.recorder.enabled = False
        time_ns = None if host_ns is None else max(host_ns, max(trace.column("end"), default=0))
        totals = summary(trace, self._rates(), whole=None if time_ns is None else (0, time_ns))
        if self._request.chrome:
            write_trace(trace, self._path + ENDING)
        modelled, communicator = machine is not None, sys.modules.get(_COMMUNICATOR)
        rank = os.environ.get("RANK", "")
        waits = () if communicator is None else communicator.waits_for_others()
        return {
            "rank": int(rank) if rank.isdecimal() else communicator and communicator.known_rank(),
            "waited_ns": idle_in(trace, waits) if modelled else None,
            "device": {**self._device, "torch": torch.__version__},
            "modelled": modelled,
            "host_ns": host_ns,
            "time_ns": time_ns,
            "real_s": real_s,
            "error": self._error,
            "has_forked": self._has_forked,
            "summary": totals.to_json(),
            "words": describe(totals, modelled=modelled) if totals.events else "",
        }

    def _rates(self) -> Mapping[str, Rates]:
        """Return the GPUs' rates, for advice on tensor cores."""
        from gpututor.trace.advice_rules import Rates

        gpus = () if self._machine is None else self._machine.gpus
        return {gpu.name: Rates(gpu.spec.float32_flops, gpu.spec.tf32_flops, gpu.spec.bytes_per_s) for gpu in gpus}


def write(path: str, report: dict[str, Any]) -> None:
    """Write a report atomically."""
    part = Path(path + ".part")
    part.write_text(json.dumps(report), encoding="utf-8")
    part.replace(path)
