"""Entry point of `gpututor run` and `gpututor trace`: runs a program on the selected device, ungraded.

- `python -m gpututor.devices.run_program run [--device D] [--gpu G] [--gpus N] [--memory S] FILE [ARGS …]`
- `python -m gpututor.devices.run_program trace TASK`, where TASK is a JSON object with the fields of `TraceOptions`

The program owns stdin, stdout, stderr and the exit code. A traced program's report is written to a folder when Python
exits, after the program's threads and its `atexit` functions; see `gpututor.devices.process_report`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpututor.devices import process_report
from gpututor.devices.programs import Program, check, learners_of, run_on
from gpututor.devices.virtual.options import DEFAULT_MODEL, parse_count, parse_size
from gpututor.errors import UsageError
from gpututor.hardware.gpus import GpuSpec, gpu_spec
from gpututor.processes import die_with_parent

if TYPE_CHECKING:
    from gpututor.devices.recorder import Recorder
    from gpututor.devices.virtual.machine import VirtualMachine


@dataclass(frozen=True)
class DeviceRequest:
    """The device options of a command line, validated as far as possible without torch."""

    device: str
    """`auto`, `virtual`, `cpu`, `cuda`, `cuda:N`, `mps` or `xpu`."""
    gpu: GpuSpec
    """Model of the virtual GPU; `gpus` and `memory_bytes` also belong to the virtual GPU."""
    gpus: int = 1
    memory_bytes: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """More keyword arguments of `virtual_gpu`."""


@dataclass(frozen=True)
class SelectedDevice:
    """The device that the program runs on."""

    kind: str
    """`virtual`, `cpu`, `cuda`, `mps` or `xpu`."""
    description: str
    machine: VirtualMachine | None
    """None if the device is real."""


def parse_device(device: str, gpu: str | None, gpus: str, memory: str | None, **options: Any) -> DeviceRequest:
    """Parse the device options of a command line. Raises `UsageError` for invalid values."""
    if not re.fullmatch(r"auto|virtual|cpu|cuda(:\d+)?|mps|xpu", device, re.ASCII):
        raise UsageError(f"There is no device {device!r}.", "Known: auto, virtual, cpu, cuda, cuda:N, mps, xpu.")
    model, option = gpu_spec(DEFAULT_MODEL if gpu is None else gpu), "--gpus"
    try:
        count = parse_count(gpus)
        option = "--memory"
        memory_bytes = None if memory is None else parse_size(memory)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.", "Correct the option, or leave it out.") from None
    return DeviceRequest(device, model, count, memory_bytes, options)


@contextlib.contextmanager
def on_device(request: DeviceRequest, recorder: Recorder | None = None) -> Iterator[SelectedDevice]:
    """Enter the requested device, with `recorder` on; `auto` prefers a real device. Raises `UsageError` without it."""
    from gpututor.devices.probe import describe_devices

    kind = request.device.partition(":")[0]
    devices = {device["name"]: device for device in describe_devices()}
    accelerators = [name for name in devices if name != "cpu"]
    if kind == "virtual" or (kind == "auto" and not accelerators):
        from gpututor.devices.virtual.session import virtual_gpu

        model, gpus, memory_bytes = request.gpu.name, request.gpus, request.memory_bytes
        with virtual_gpu(gpus, model, memory_bytes=memory_bytes, recorder=recorder, **request.options) as machine:
            description = f"virtual {model} (modelled)" if gpus == 1 else f"{gpus} x virtual {model} (modelled)"
            yield SelectedDevice("virtual", description, machine)
        return
    name = accelerators[0] if kind == "auto" else request.device
    selected = devices.get(name, devices.get(f"{name}:0"))
    if selected is None:
        raise UsageError(f"This machine has no device {request.device}.", "Try --device virtual.")
    if selected["kind"] == "cuda":
        import torch

        torch.cuda.set_device(selected["name"])
    with contextlib.ExitStack() as stack:
        if recorder is not None:
            from gpututor.devices.real import observe

            stack.enter_context(observe(recorder))
        description = "the CPU" if kind == "cpu" else str(selected["description"])
        yield SelectedDevice(selected["kind"], description, None)


@dataclass(frozen=True)
class TraceOptions:
    """The options of `gpututor trace`, not yet validated."""

    name: str
    arguments: list[str]
    is_module: bool
    device: str
    gpu: str | None
    gpus: str
    memory: str | None
    others: list[str]
    """GPUs of later runs: their names are validated before anything runs."""
    options: dict[str, Any]
    """Keyword arguments of `virtual_gpu`."""
    chrome: bool
    """True if a timeline is written too."""
    folder: str
    """Folder of the reports. If the program cannot be started, it gets `{"refused": [title, advice]}`."""


def run(words: list[str]) -> None:
    """Run a file as a script; its output goes straight to the terminal."""
    parser = argparse.ArgumentParser(prog="gpututor run")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", "--gpu", dest="gpu")
    parser.add_argument("--gpus", default="1")
    parser.add_argument("--memory")
    parser.add_argument("file")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(words)
    program = Program(arguments.file, tuple(arguments.words))

    def began(device: SelectedDevice) -> None:
        print(f"gpututor: running on {device.description}", file=sys.stderr, flush=True)

    try:
        request = parse_device(arguments.device, arguments.gpu, arguments.gpus, arguments.memory)
        check(program)
        run_on(on_device(request), program, began=began)
    except UsageError as error:
        parser.exit(error.exit_code, f"gpututor: {error}\n")


def trace(task: TraceOptions) -> None:
    """Run a program with the recorder on."""
    die_with_parent()
    received: list[int] = []
    program = Program(task.name, tuple(task.arguments), task.is_module)
    try:
        request = parse_device(task.device, task.gpu, task.gpus, task.memory, **task.options)
        for name in task.others:
            gpu_spec(name)
        check(program)
        trace_request = process_report.TraceRequest(task.folder, learners_of(program), task.chrome)
        report = process_report.ProcessReport(trace_request)

        def began(device: SelectedDevice) -> None:
            os.environ[process_report.VARIABLE] = trace_request.to_json()
            name = device.description if device.machine is None else request.gpu.name
            report.begin(device.kind, name, device.machine)
            _end_on_sigterm(received)

        run_on(on_device(request, report.recorder), program, began=began, failed=report.failed)
    except UsageError as error:
        process_report.write(os.path.join(task.folder, process_report.FIRST), {"refused": [error.title, error.advice]})
        sys.exit(error.exit_code)
    except SystemExit:
        if received:  # C code may have replaced the signal handler's exception
            sys.exit(128 + received[0])
        raise


def _end_on_sigterm(received: list[int]) -> None:
    """End the program on SIGTERM as `sys.exit` does, and store the signal; a forked child ends at once."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    report_ignored = sys.unraisablehook

    def end(number: int, _: object) -> None:
        received.append(number)
        raise SystemExit(128 + number)

    def retry(ignored: Any) -> None:
        """Send the signal again: Python ignores exceptions in finalizers and callbacks of weak references."""
        number = {SystemExit: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}.get(ignored.exc_type)
        if number is not None and signal.getsignal(number) in (end, signal.default_int_handler):
            threading.Timer(0.01, signal.raise_signal, (number,)).start()
        else:
            report_ignored(ignored)

    def forget() -> None:
        if signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, end)
    sys.unraisablehook = retry
    os.register_at_fork(after_in_child=forget)


if __name__ == "__main__":
    if sys.argv[1] == "trace":
        trace(TraceOptions(**json.loads(sys.argv[2])))
    else:
        run(sys.argv[2:])
