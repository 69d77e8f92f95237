"""`python -m gpututor.worker.tracing TASK`: runs a program with the recorder on, for `gpututor trace`.

TASK is a JSON object, see `Task`. The program has stdin, stdout, stderr and the exit code for itself. What its devices
did is written to a file when Python ends: after the program's threads and what it registered with `atexit`.
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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpututor.devices.programs import Program, check, run_on, whose
from gpututor.devices.virtual.specs import spec
from gpututor.errors import UsageError
from gpututor.processes import die_with_parent
from gpututor.worker.chosen import Chosen, Wanted, on_device, wanted

if TYPE_CHECKING:
    from gpututor.devices.recorder import Recorder
    from gpututor.trace.advice import Rates

LIMIT = 10_000_000
"""Events that are kept; 80 bytes each. What comes later is counted."""


@dataclass(frozen=True)
class Task:
    """What the command line asked for; its words are read here."""

    name: str
    arguments: list[str]
    is_module: bool
    device: str
    gpu: str | None
    gpus: str
    memory: str | None
    others: list[str]
    """GPUs that come later: their names are looked at before anything is run."""
    options: dict[str, Any]
    """For `virtual_gpu`."""
    chrome: str | None
    """Where the timeline is to be written."""
    result: str
    """Where the result is to be written: JSON, `{"refused": [title, advice]}` or that of `_Run`."""


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    die_with_parent()
    program = Program(task.name, tuple(task.arguments), task.is_module)
    try:
        asked = wanted(task.device, task.gpu, task.gpus, task.memory, **task.options)
        for name in task.others:
            spec(name)
        check(program)
        from gpututor.devices.recorder import Recorder

        recorder = Recorder(is_learners=whose(program), limit=LIMIT)
        run = _Run(task, asked, recorder)
        run_on(on_device(asked, recorder), program, began=run.began, failed=run.failed)
    except UsageError as error:
        _write(task.result, {"refused": [error.title, error.advice]})
        sys.exit(error.exit_code)


class _Run:
    """One run, from the moment at which the device is there until Python ends."""

    def __init__(self, task: Task, asked: Wanted, recorder: Recorder) -> None:
        self._task = task
        self._asked = asked
        self._recorder = recorder
        self._process = os.getpid()
        self._began_s = time.perf_counter()
        self._error = ""
        self._device: Chosen | None = None

    def began(self, device: Chosen) -> None:
        self._device = device
        atexit.register(self.ended)
        _end_on_sigterm()
        self._began_s = time.perf_counter()

    def failed(self, error: BaseException) -> None:
        """Remember what is shown to the person, in one line."""
        with contextlib.suppress(Exception):  # its message is the program's code
            self._error = traceback.format_exception_only(error)[-1].strip().partition("\n")[0]

    def ended(self) -> None:
        """Write down what was seen. A forked child does not."""
        if os.getpid() != self._process:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # what is being written is what they would ask for
        try:
            found = self._found()
        except Exception:
            found = {"broken": traceback.format_exc()}
        _write(self._task.result, found)

    def _found(self) -> dict[str, Any]:
        """The device, the times, the summary, and the summary in words."""
        from gpututor.trace.chrome import write_chrome
        from gpututor.trace.summary import summary
        from gpututor.trace.words import in_words

        assert self._device is not None
        machine, real_s = self._device.machine, time.perf_counter() - self._began_s
        host_ns = None if machine is None else machine.clock.host.end().time
        trace = self._recorder.complete()
        self._recorder.enabled = False
        ends = trace.column("end")
        told = summary(trace, self._rates())
        if self._task.chrome is not None:
            with open(self._task.chrome, "w", encoding="utf-8") as file:
                write_chrome(trace, file)
        modelled = machine is not None
        return {
            "device": self._device_facts(),
            "modelled": modelled,
            "host_ns": host_ns,
            "time_ns": None if host_ns is None else max(host_ns, max(ends, default=0)),
            "real_s": real_s,
            "error": self._error,
            "summary": told.to_json(),
            "words": in_words(told, modelled=modelled) if told.events else "",
        }

    def _device_facts(self) -> dict[str, Any]:
        import torch

        assert self._device is not None
        machine = self._device.machine
        return {
            "kind": self._device.kind,
            "name": self._device.words if machine is None else self._asked.gpu.name,
            "count": 1 if machine is None else len(machine.gpus),
            "memory_bytes": machine.gpus[0].memory.total if machine is not None and machine.gpus else None,
            "torch": torch.__version__,
        }

    def _rates(self) -> Mapping[str, Rates]:
        """For advice on tensor cores."""
        from gpututor.trace.advice import Rates

        machine = self._device.machine if self._device is not None else None
        gpus = () if machine is None else machine.gpus
        return {gpu.name: Rates(gpu.spec.float32_flops, gpu.spec.tf32_flops) for gpu in gpus}


def _end_on_sigterm() -> None:
    """SIGTERM, which others send to end a program, ends this one as `sys.exit` does; a forked child it just ends."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    def forget() -> None:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, end)
    os.register_at_fork(after_in_child=forget)


def _write(path: str, found: dict[str, Any]) -> None:
    part = Path(path + ".part")
    part.write_text(json.dumps(found), encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    main()
