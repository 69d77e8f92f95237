"""`python -m gpututor.worker.tracing TASK`: runs a program with the recorder on, for `gpututor trace`.

TASK is a JSON object, see `Task`. The program has stdin, stdout, stderr and the exit code for itself. What its devices
did is written to a folder when Python ends, after the program's threads and what it registered with `atexit`; see
`gpututor.devices.process_report`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any

from gpututor.devices import process_report
from gpututor.devices.programs import Program, check, run_on, whose
from gpututor.errors import UsageError
from gpututor.hardware.gpus import gpu_spec
from gpututor.processes import die_with_parent
from gpututor.worker.chosen import SelectedDevice, on_device, wanted


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
    chrome: bool
    """Whether a timeline is wanted."""
    folder: str
    """Where reports are to be written. `{"refused": [title, advice]}` is one of a program that did not begin."""


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    die_with_parent()
    program = Program(task.name, tuple(task.arguments), task.is_module)
    try:
        asked = wanted(task.device, task.gpu, task.gpus, task.memory, **task.options)
        for name in task.others:
            gpu_spec(name)
        check(program)
        request = process_report.TraceRequest(task.folder, whose(program), task.chrome)
        report = process_report.Report(request)

        def began(device: SelectedDevice) -> None:
            os.environ[process_report.VARIABLE] = request.to_json()
            report.begin(device.kind, device.words if device.machine is None else asked.gpu.name, device.machine)
            _end_on_sigterm()

        run_on(on_device(asked, report.recorder), program, began=began, failed=report.failed)
    except UsageError as error:
        process_report.write(os.path.join(task.folder, process_report.FIRST), {"refused": [error.title, error.advice]})
        sys.exit(error.exit_code)


def _end_on_sigterm() -> None:
    """End the program on SIGTERM as `sys.exit` does; a forked child just ends."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    report_ignored = sys.unraisablehook

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    def retry(ignored: Any) -> None:
        """Send the signal again: Python drops what is raised in a finaliser or a weak reference's callback."""
        if ignored.exc_type is SystemExit and signal.getsignal(signal.SIGTERM) is end:
            threading.Timer(0.01, signal.raise_signal, (signal.SIGTERM,)).start()
        else:
            report_ignored(ignored)

    def forget() -> None:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, end)
    sys.unraisablehook = retry
    os.register_at_fork(after_in_child=forget)


if __name__ == "__main__":
    main()
