"""Run a script and report device time, copies and waits by line, memory, hazards, and the three most useful changes.

  gpututor trace train.py --epochs 1         options before SCRIPT are gpututor's, those after it the script's
  gpututor trace -m package.train            as python -m
  gpututor trace --gpu T4,A100,H100 train.py     on each GPU, with one table

The script's input, output and exit code are its own; the summary goes to stderr, after it. With several GPUs the script
runs once for each; the later runs have no input, and their output is hidden.

--json writes one object, described in docs/trace.md; `-` is stdout, after the script's own output.
--chrome writes the timeline of the (first) run, to be opened in https://ui.perfetto.dev or chrome://tracing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpututor import __version__
from gpututor.cli.device_options import add_device_arguments, settle_device
from gpututor.cli.trace_report import TracedRun, compare_runs, describe_run, read_run
from gpututor.errors import TutorError, UsageError

_SECOND_INTERRUPT_S = 0.5
_FILE_ADVICE = "Free some space, or name another file. Then run the script again."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_device_arguments(parser, several_gpus=True)
    parser.add_argument("--memory", metavar="SIZE", help="the memory of each virtual GPU, such as 512MiB")
    values_help = "tensors have shapes only: time and memory are modelled, nothing is computed"
    parser.add_argument("--no-values", action="store_true", help=values_help)
    time_help = "the script's own clocks and sleep use real time, not the modelled time of the GPU"
    parser.add_argument("--real-time", action="store_true", help=time_help)
    parser.add_argument("--json", metavar="F", help="write the summary to this file as JSON; - for stdout")
    parser.add_argument("--chrome", metavar="F", help="write the timeline to this file, for Perfetto and Chrome")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module and its arguments")
    what.add_argument("script", metavar="SCRIPT", nargs="?", help="a Python file")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="the script's arguments")


def main(arguments: argparse.Namespace) -> int:
    """Return the script's exit code; with several GPUs, of the first run."""
    _check(arguments)
    words = arguments.module if arguments.module is not None else [arguments.script, *arguments.arguments]
    names: list[str | None] = [None]
    if arguments.gpu is not None:
        names = [name.strip() for name in arguments.gpu.split(",")]
        if not all(names):
            raise UsageError(f"--gpu: a name is missing in {arguments.gpu!r}.", "For example: --gpu T4,A100")
    task = {
        "name": words[0],
        "arguments": words[1:],
        "is_module": arguments.module is not None,
        "device": arguments.device,
        "gpus": "1" if arguments.gpus is None else str(arguments.gpus),
        "memory": arguments.memory,
        "options": ({"virtual_time": False} if arguments.real_time else {})
        | ({"values": False} if arguments.no_values else {}),
    }
    runs: list[TracedRun] = []
    for name in names:
        if runs:
            _report(f"gpututor: running again on {name}, without input (output hidden) …\n")
        others = [] if runs else names[1:]
        chrome = None if runs or arguments.chrome is None else _path(arguments.chrome)
        runs.append(_run({**task, "gpu": name, "others": others}, chrome, quiet=bool(runs)))
        if not runs[1:]:
            _report(describe_run(runs[0], _program(task)))
        if runs[-1].interrupted:
            break  # an interrupt also cancels the remaining runs
    if len(names) > 1:
        _report(compare_runs(runs, [name or "" for name in names[len(runs) :]]))
    if arguments.chrome is not None and runs[0].chrome:
        _report(f"The timeline is in {arguments.chrome}: open it in https://ui.perfetto.dev\n")
    if arguments.json is not None:
        _write(arguments.json, [task["name"], *task["arguments"]], runs)
    return runs[0].code


def _report(text: str) -> None:
    print(f"\n{text}", end="", file=sys.stderr, flush=True)


def _check(arguments: argparse.Namespace) -> None:
    """Raise `UsageError` for mistakes that can be found before anything runs."""
    if arguments.module is not None and not arguments.module:
        raise UsageError("-m needs the name of a module.", "For example: gpututor trace -m package.train")
    if arguments.module is None and arguments.script is None:
        raise UsageError("There is nothing to trace.", "Name a script, or -m and a module.")
    settle_device(arguments)
    files = [(f"--{name}", word) for name in ("json", "chrome") if (word := getattr(arguments, name)) is not None]
    written = [(option, _path(word)) for option, word in files if word != "-"]
    for option, path in written:
        _check_writable(option, path)
    if len({path.resolve() for _, path in written}) < len(written):
        raise UsageError("--json and --chrome name the same file.", "Give each option its own file.")


def _path(word: str) -> Path:
    return Path(word).expanduser()


def _check_writable(option: str, path: Path) -> None:
    if path.suffix == ".py":
        raise UsageError(f"{option} names a Python file, {path}.", "Name the file to write, after the option.")
    try:
        if path.exists() and not path.is_dir() and not path.is_file():
            return  # opening a pipe or a terminal may wait for its reader
        is_new = not path.exists()
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise UsageError(f"{option}: {path} cannot be written: {error.strerror}.", "Nothing was run.") from None


def _program(task: dict[str, Any]) -> str:
    return f"-m {task['name']}" if task["is_module"] else os.path.basename(task["name"].rstrip(os.sep))


def _run(task: dict[str, Any], chrome: Path | None, *, quiet: bool) -> TracedRun:
    """Run the program once; write its timeline to `chrome`. Raises `UsageError` if it could not start."""
    with tempfile.TemporaryDirectory(prefix="gpututor-") as folder:
        words = json.dumps({**task, "chrome": chrome is not None, "folder": folder})
        # -P: modules next to the script must not replace ours. Not -I: PYTHONPATH belongs to the script.
        command = [sys.executable, "-P", "-m", "gpututor.devices.run_program", "trace", words]
        nowhere = subprocess.DEVNULL if quiet else None
        with _forward_signals() as (child, seen):
            child.append(subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere))
            code = child[0].wait()
        run = read_run(task["gpu"], 128 - code if code < 0 else code, Path(folder), interrupted=bool(seen))
        if run.main.refused is not None:
            raise UsageError(*run.main.refused)
        if chrome is not None and run.chrome:
            try:
                shutil.copyfile(run.chrome, chrome)
            except OSError as error:
                raise TutorError(f"{chrome} cannot be written: {error.strerror}.", _FILE_ADVICE) from None
        return run


@contextlib.contextmanager
def _forward_signals() -> Iterator[tuple[list[subprocess.Popen[bytes]], list[int]]]:
    """Forward signals to the child, except a Ctrl-C from the terminal, which it gets anyway; gpututor stays to report.

    Yields a list to put the child into, and the list of signals received.
    """
    child: list[subprocess.Popen[bytes]] = []
    seen: list[int] = []

    def forward(number: int, _: object) -> None:
        # SIGINT is not ignored, because the child would inherit that.
        seen.append(number)
        if number == signal.SIGTERM:
            send(number)
        elif not _is_in_the_foreground():
            # Wait: the sender may also interrupt the child, and a second interrupt would stop its cleanup.
            later = threading.Timer(_SECOND_INTERRUPT_S, send, (number,))
            later.daemon = True
            later.start()

    def send(number: int) -> None:
        for process in child:
            process.send_signal(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, forward)
        yield child, seen
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _is_in_the_foreground() -> bool:
    """Return True if the terminal's Ctrl-C reaches both this process and its child."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _write(word: str, command: list[str], runs: list[TracedRun]) -> None:
    outputs = [run.to_json() for run in runs]
    result = {"schema_version": 1, "gpututor": __version__, "command": command, "runs": outputs}
    text = json.dumps(result, indent=2)
    if word == "-":
        print(text)
        return
    try:
        _path(word).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise TutorError(f"{word} cannot be written: {error.strerror}.", _FILE_ADVICE) from None
