"""Running a file as a script, ungraded.

`python -m gpututor.worker.script [--device D] [--model M] [--gpus N] [--memory S] FILE`.
Its output goes straight to the terminal; its exit code is the script's own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator

from gpututor.devices.inventory import describe_devices
from gpututor.devices.virtual.options import DEFAULT_MODEL, bytes_in, count_in
from gpututor.devices.virtual.specs import spec
from gpututor.errors import UsageError
from gpututor.paths import PACKAGE


@contextlib.contextmanager
def on_device(wanted: str, gpu: str, gpus: int, memory_bytes: int | None = None) -> Iterator[str]:
    """Be on the device that was asked for; yields words for it. `auto`: a real accelerator, else the virtual GPU."""
    kind, _, index = wanted.partition(":")
    real = [device for device in describe_devices() if device["kind"] != "cpu"]
    if kind == "cpu":
        yield "the CPU"
    elif real and kind in ("auto", *(str(device["kind"]) for device in real)):
        if kind == "cuda" and index:
            import torch

            torch.cuda.set_device(int(index))
        yield str(real[0]["description"])
    elif kind in ("auto", "virtual"):
        from gpututor.devices.virtual import virtual_gpu

        with virtual_gpu(gpus, gpu, memory_bytes=memory_bytes):
            yield f"{gpus} x virtual {gpu} (modelled)" if gpus != 1 else f"virtual {gpu} (modelled)"
    else:
        sys.exit(f"gpututor: this machine has no device {wanted}. Try --device virtual.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="gpututor run")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", "--gpu", dest="gpu", default=DEFAULT_MODEL)
    parser.add_argument("--gpus", default="1")
    parser.add_argument("--memory")
    parser.add_argument("file")
    arguments = parser.parse_args()
    sys.argv = [arguments.file]
    try:
        spec(arguments.gpu)
        gpus = _read("--gpus", count_in, arguments.gpus)
        memory_bytes = None if arguments.memory is None else _read("--memory", bytes_in, arguments.memory)
    except UsageError as error:
        parser.exit(error.exit_code, f"gpututor: {error}\n")
    sys.path[0] = os.path.dirname(os.path.abspath(arguments.file))  # as Python does for a script
    with on_device(arguments.device, arguments.gpu, gpus, memory_bytes) as words:
        print(f"gpututor: running on {words}", file=sys.stderr, flush=True)
        try:
            runpy.run_path(arguments.file, run_name="__main__")
        except Exception as error:
            _print_traceback(error)
            sys.exit(1)


def _read(option: str, reader: Callable[[str], int], word: str) -> int:
    try:
        return reader(word)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from error


def _print_traceback(error: Exception) -> None:
    """As Python does, without the frames of gpututor that stand between the script and torch."""
    told = traceback.TracebackException.from_exception(error)
    ours = (str(PACKAGE), "<frozen runpy>")
    told.stack = traceback.StackSummary.from_list(
        [frame for frame in told.stack if not frame.filename.startswith(ours)]
    )
    print("".join(told.format()), end="", file=sys.stderr)


if __name__ == "__main__":
    main()
