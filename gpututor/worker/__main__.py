"""The worker: `python -I -m gpututor.worker DESCRIPTOR SCRATCH`. Serves one submission and dies.

It holds no seed, no reference, no tolerance and no verdict. Whatever it says is looked at, not believed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from gpututor.processes import die_with_parent
from gpututor.wire.frames import EndOfFrames, Frame, FrameError, read_frame, write_frame
from gpututor.wire.messages import Failure, MachineSpec

WARMED = (
    "torch._dynamo",  # 1.2 s: torch's modes and optimisers import it at their first use
    "gpututor.devices.virtual.session",
    "gpututor.worker.machines",
    "gpututor.worker.submission",
    "gpututor.wire.unpacker",
)


def main() -> int:
    die_with_parent()
    descriptor, scratch = int(sys.argv[1]), Path(sys.argv[2])
    sys.argv = ["submission"]
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    stream: BinaryIO = connection.makefile("rwb", buffering=1 << 16)  # type: ignore[assignment]
    available = _warm_up()
    os.chdir(scratch)
    # Asked by SIGUSR1 what it is at: so that a timeout can name the line. Works while Python code does not return.
    faulthandler.register(signal.SIGUSR1, file=(scratch / ".stack").open("w"))
    write_frame(stream, {"event": "ready", "torch": _torch_version(), "devices": available})
    with contextlib.suppress(EndOfFrames):
        while True:
            try:
                _serve_scenario(stream, scratch)
            except FrameError:
                raise
            except Exception:
                # Ours or the exercise's, not the learner's: the judge calls it an internal error.
                _answer(stream, {"event": "broken", "words": traceback.format_exc()[-4000:]})
                return 1
    return 0


def _warm_up() -> list[dict[str, Any]]:
    """Import what a run needs, so that it does not pay for it. Returns the devices that are here."""
    import torch

    for name in WARMED:
        importlib.import_module(name)
    from gpututor.devices.inventory import describe_devices
    from gpututor.worker.limits import apply_limits

    torch.set_num_threads(1)
    apply_limits()
    return describe_devices()


def _torch_version() -> str:
    import torch

    return torch.__version__


def _serve_scenario(stream: BinaryIO, scratch: Path) -> None:
    """One `load` and its `call`s, up to the `leave` that ends them."""
    from gpututor.worker.machines import entered
    from gpututor.worker.submission import SubmissionFailed, load

    request = read_frame(stream).header
    path = scratch / request["file_name"]
    path.write_text(request["source"], encoding="utf-8")
    spec = MachineSpec.from_json(request["machine"])
    _restore_defaults()
    with entered(spec, str(path)) as machine:
        machine.recorder.enabled = False
        build = _build_function(request["given"])
        try:
            function = load(path, request["entry"])
        except SubmissionFailed as error:
            _answer(stream, {"event": "failed", "failure": error.failure.to_json()})
            function = None
        else:
            _answer(stream, {"event": "loaded"})
        while (frame := read_frame(stream)).header["op"] == "call":
            if function is None:
                raise ValueError("called what did not load")
            _serve_call(stream, frame, function, build, machine, path)


def _serve_call(
    stream: BinaryIO, frame: Frame, function: Callable[..., Any], build: Callable[..., Any], machine: Any, path: Path
) -> None:
    from gpututor.wire.observed import ValueRefused
    from gpututor.wire.packer import Packer
    from gpututor.wire.unpacker import Unpacker, materialise
    from gpututor.worker.submission import SubmissionFailed, call

    arguments = build(materialise(Unpacker(frame.buffers).unpack(frame.header["drawn"])))
    recorder = machine.recorder
    before = len(recorder.trace)
    recorder.enabled = True
    header: dict[str, Any]
    packer = Packer(machine.view)
    try:
        output = call(function, arguments, path)
        recorder.enabled = False
        header = {"event": "returned", "output": packer.pack(output), "arguments": packer.facts(arguments)}
    except SubmissionFailed as error:
        recorder.enabled = False
        header, packer = {"event": "failed", "failure": error.failure.to_json()}, Packer()
    except ValueRefused as error:
        failure = Failure("refused", "", str(error), None, "")
        header, packer = {"event": "failed", "failure": failure.to_json()}, Packer()
    _answer(stream, {**header, "trace": recorder.trace.since(before).to_json()}, packer.buffers)


def _answer(stream: BinaryIO, header: dict[str, Any], buffers: list[bytes] | None = None) -> None:
    """Send a frame, after all that was printed, so that the judge has the text when it has the frame."""
    for printed in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            printed.flush()
    write_frame(stream, header, buffers or ())


def _build_function(source: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """`build` of the exercise's given.py; without one, what was drawn is passed as it is."""
    given = ModuleType("given")
    exec(compile(source, "given.py", "exec"), given.__dict__)
    build = getattr(given, "build", None)
    return build if build is not None else dict


def _restore_defaults() -> None:
    """Torch's process-wide defaults, whatever the scenario before left behind."""
    import torch

    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)


if __name__ == "__main__":
    sys.exit(main())
