"""Serving a submission, scenario by scenario, as the judge asks. See `gpututor.wire.messages` for the conversation."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import torch

from gpututor.wire.frames import EndOfFrames, FrameError, read_frame, write_frame
from gpututor.wire.messages import Failure, MachineSpec
from gpututor.wire.observed import ValueRefused
from gpututor.wire.packer import Packer
from gpututor.wire.unpacker import Unpacker, materialise
from gpututor.worker.machines import EnteredMachine, entered
from gpututor.worker.submission import SubmissionFailed, call, load

Build = Callable[[dict[str, Any], torch.device], dict[str, Any]]


def serve(stream: BinaryIO, scratch: Path) -> int:
    """One scenario after another, until the judge closes; returns the exit code."""
    try:
        while True:
            _serve_scenario(stream, scratch)
    except EndOfFrames:
        return 0
    except FrameError:
        raise
    except Exception:
        # Ours or the exercise's, not the learner's: the judge calls it an internal error.
        _answer(stream, {"event": "broken", "words": traceback.format_exc()[-4000:]})
        return 1


def _serve_scenario(stream: BinaryIO, scratch: Path) -> None:
    """One `load` and its `call`s, up to the `leave` that ends them."""
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
            drawn = materialise(Unpacker(frame.buffers).unpack(frame.header["drawn"]))
            _serve_call(stream, function, build(drawn, torch.device(spec.device)), machine, path)


def _serve_call(
    stream: BinaryIO, function: Callable[..., Any], arguments: dict[str, Any], machine: EnteredMachine, path: Path
) -> None:
    """Call the learner's function; what the devices do meanwhile is recorded, and nothing before or after."""
    recorder = machine.recorder
    before = len(recorder.trace)
    packer = Packer(machine.view)
    header: dict[str, Any]
    try:
        recorder.enabled = True
        try:
            output = call(function, arguments, path)
        finally:
            recorder.enabled = False
        header = {"event": "returned", "output": packer.pack(output), "arguments": packer.facts(arguments)}
    except SubmissionFailed as error:
        header, packer = _failed(error.failure), Packer()
    except ValueRefused as error:
        header, packer = _failed(Failure("refused", "", str(error), None, "")), Packer()
    _answer(stream, {**header, "trace": recorder.trace.since(before).to_json()}, packer.buffers)


def _failed(failure: Failure) -> dict[str, Any]:
    return {"event": "failed", "failure": failure.to_json()}


def _answer(stream: BinaryIO, header: dict[str, Any], buffers: list[bytes] | None = None) -> None:
    """Send a frame, after all that was printed, so that the judge has the text when it has the frame."""
    for printed in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            printed.flush()
    write_frame(stream, header, buffers or ())


def _build_function(source: str) -> Build:
    """`build(drawn, device)` of the exercise's given.py; without one, what was drawn is passed as it is."""
    given = ModuleType("given")
    exec(compile(source, "given.py", "exec"), given.__dict__)
    build: Build | None = getattr(given, "build", None)
    return build if build is not None else lambda drawn, _: drawn


def _restore_defaults() -> None:
    """Torch's process-wide defaults, whatever the scenario before left behind."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
