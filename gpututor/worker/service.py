"""The worker's service: loads a submission, calls it, and answers the judge's requests scenario by scenario.

Nothing is recorded or traced meanwhile, and no clock is read here: the judge has its own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import torch

from gpututor.protocol.decode import Decoder, to_tensor
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import EndOfFrames, Frame, FrameError
from gpututor.protocol.messages import Failure, MachineSpec, Sizes
from gpututor.protocol.values import ValueRefused, state_in
from gpututor.trace.serialization import trace_to_json
from gpututor.worker.connection import Connection
from gpututor.worker.files import load_files, remove_written, written
from gpututor.worker.given import GIVEN, GivenBroke, authors_code
from gpututor.worker.guard import CallGuard, TamperGuard
from gpututor.worker.integrity import MOST_NAMED
from gpututor.worker.machine import CallMeasurement, EnteredMachine, enter_machine
from gpututor.worker.ranks import device_of, let_go, serve_ranks
from gpututor.worker.submission import SubmissionFailed, call, describe, flush_printed, load

FLUSHED_BYTES = 256 << 20
"""More than any second-level cache holds; the largest of today has 126 MiB."""


class TimedCalls:
    """Answers `time`. One for a loaded submission."""

    def __init__(
        self,
        function: Callable[..., Any],
        build: Callable[..., Any],
        spec: MachineSpec,
        machine: EnteredMachine,
        between: CallGuard,
    ) -> None:
        self._function = function
        self._build = build
        self._device = torch.device(spec.device)
        self._machine = machine
        self._between = between
        self._kept: list[Any] = []
        on_accelerator = self._device.type != "cpu"
        self._flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device=self._device) if on_accelerator else None

    def answer(self, frame: Frame, path: Path) -> tuple[dict[str, Any], list[bytes]]:
        """Call the function for each of the frame's inputs, which are built one after the other.

        With `keep`, the results are kept; with `again`, the kept ones are the answer and nothing is called: that is
        what bringing inputs and results costs by itself. Each result is packed before the next call, so that code
        which returns one buffer again and again is right.
        """
        header = frame.header
        unpacker = Decoder(frame.buffers)
        buffers: list[bytes] = []
        nodes: list[dict[str, Any]] = []
        if header["keep"]:
            self._kept = []
        if self._flushed is not None:
            self._flushed.zero_()
        try:
            for position, node in enumerate(header["drawn"]):
                arguments = self._build(to_tensor(unpacker.unpack(node)), self._device)
                if header["again"]:
                    output = self._kept[position]
                else:
                    output = self._called(arguments, path)
                if header["keep"]:
                    self._kept.append(output)
                packer = Encoder(self._machine.view)
                packer.buffers = buffers
                nodes.append(_packed_result(packer, output, path))
            self._settle(path)
            self._between.go()
            flush_printed()
            self._between.stand()
        except SubmissionFailed as error:
            return {"event": "failed", "failure": error.failure.to_json()}, []
        return {"event": "timed", "outputs": nodes}, buffers

    def _called(self, arguments: dict[str, Any], path: Path) -> Any:
        try:
            self._between.go()
            return self._function(**arguments)
        except BaseException as error:
            raise SubmissionFailed(describe(error, path)) from None
        finally:
            self._between.stand()

    def _settle(self, path: Path) -> None:
        """Wait for all devices: work that nobody waited for counts too."""
        try:
            self._machine.gauge.settle()
        except Exception as error:
            raise SubmissionFailed(describe(error, path)) from None


def _packed_result(packer: Encoder, output: Any, path: Path) -> dict[str, Any]:
    try:
        return packer.pack(output)
    except ValueRefused as error:
        raise SubmissionFailed(Failure("refused", "", str(error), None, "")) from None
    except Exception as error:
        failure = describe(error, path)
        message = f"the result cannot be brought back: {failure.type_name}: {failure.message}"
        raise SubmissionFailed(Failure("refused", "", message, failure.line, failure.traceback)) from None


Build = Callable[[dict[str, Any], torch.device], dict[str, Any]]


def serve(stream: BinaryIO, scratch: Path) -> int:
    """One scenario after another, until the judge closes; returns the exit code."""
    line = Connection(stream)
    try:
        while True:
            _serve_scenario(line, scratch)
    except EndOfFrames:
        return 0
    except FrameError:
        raise
    except Exception as error:
        # Ours or the exercise's, not the learner's: the judge calls it an internal error.
        line.noticed = None
        given = error.fault if isinstance(error, GivenBroke) else None
        line.answer({"event": "broken", "words": traceback.format_exc()[-4000:], "given": given})
        return 1


def _serve_scenario(line: Connection, scratch: Path) -> None:
    """One `load` and its `call`s, up to the `leave` that ends them. Or a file to be opened, and nothing run at all."""
    asked = line.next()
    request = asked.header
    if request["op"] == "open":
        line.sizes = Sizes.from_json(request["sizes"])
        line.answer(*load_files(asked, line.sizes))
        return
    if "processes" in request:
        serve_ranks(line, scratch, request, serve)
        return
    line.sizes = Sizes.from_json(request["sizes"])
    path = scratch / request["file_name"]
    rank = request.get("rank")
    if rank is None:
        path.write_text(request["source"], encoding="utf-8")
    spec = MachineSpec.from_json(request["machine"])
    _restore_defaults(spec)
    with enter_machine(spec, str(path), observed=request.get("observed", True)) as machine:
        machine.recorder.enabled = False
        build = _build_function(request["given"])
        between = CallGuard(machine.recorder, path)
        sealed = TamperGuard(machine, line)

        def noticed() -> dict[str, Any]:
            return {"changed": [*between.hooks, *sealed.changed()][:MOST_NAMED], "outside": [*between.lines]}

        # To compare takes a millisecond, which has no place in what is timed.
        line.noticed = noticed if request.get("observed", True) else None
        function, header = _loaded(path, request["entry"], between)
        line.answer(header)
        timed: TimedCalls | None = None
        while (frame := line.next()).header["op"] in ("call", "time"):
            if function is None:
                raise ValueError("called what did not load")
            if frame.header["op"] == "time":
                timed = timed or TimedCalls(function, build, spec, machine, between)
                line.answer(*timed.answer(frame, path))
                continue
            drawn = to_tensor(Decoder(frame.buffers).unpack(frame.header["drawn"]))
            arguments = build(drawn, device_of(rank, spec.device, spec.scenario.gpus)) | frame.header.get("more", {})
            remove_written(scratch, request["files"], path.name)
            seen = _Seen(machine, sealed, between)
            header, buffers = _answer_to_call(function, arguments, seen, path, request["wants"], line.sizes)
            if request["files"] and header["event"] == "returned":
                found, contents = written(scratch, request["files"], line.sizes, path.name)
                header, buffers = header | found, buffers + contents
            if rank is not None:
                header |= let_go()
            line.answer(header, buffers)
        between.go()
        flush_printed()
        between.stand()
        last = noticed()
        line.noticed = lambda: last
    line.answer({"event": "left"})
    line.noticed = None


def _loaded(path: Path, entry: str, between: CallGuard) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """The submission's function, and the answer that says so or why there is none."""
    try:
        return load(path, entry), {"event": "loaded"}
    except SubmissionFailed as error:
        return None, {"event": "failed", "failure": error.failure.to_json()}
    finally:
        flush_printed()
        between.stand()


@dataclass(frozen=True)
class _Seen:
    """By what a call is seen."""

    machine: EnteredMachine
    sealed: TamperGuard
    between: CallGuard


def _answer_to_call(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    seen: _Seen,
    path: Path,
    wants: list[str],
    sizes: Sizes,
) -> tuple[dict[str, Any], list[bytes]]:
    """Call the learner's function; what the devices do meanwhile is recorded, and nothing before or after."""
    machine, recorder = seen.machine, seen.machine.recorder
    before = len(recorder.complete())
    recorder.trace.limit = before + sizes.events
    around = CallMeasurement(machine.gauge)
    try:
        # A tuple: code of the submission that reaches this frame cannot write to it.
        digests = (*Encoder(machine.view).digests(arguments).items(),)
        around.begin()
        recorder.enabled = True
        try:
            output, line = call(function, arguments, path, seen.between)
            _settle(around, output, path)
        finally:
            seen.sealed.recorded(before + sizes.events)
            recorder.enabled = False
        packer = Encoder(machine.view, sizes.result_bytes)
        packed = _packed(packer, output, arguments, path, with_state="arguments" in wants)
        header = {"event": "returned", "line": line, **packed}
        del packed
        header |= {"before": dict(digests), "span": around.span, "unpriced": around.unpriced}
        header["fp32_precision"] = str(torch.backends.cuda.matmul.fp32_precision)
    except SubmissionFailed as error:
        header = {"event": "failed", "failure": error.failure.to_json()}
        return {**header, "trace": trace_to_json(recorder.complete().since(before))}, []
    buffers = packer.buffers
    # Whoever looks for what is left must not hold the result.
    del output, packer
    header |= {"memory": around.memory(left="left" in wants)}
    return {**header, "trace": trace_to_json(recorder.complete().since(before))}, buffers


def _settle(around: CallMeasurement, output: object, path: Path) -> None:
    """Wait for what the call launched. Raises `SubmissionFailed`: errors on a device show when it is waited for."""
    try:
        around.returned(output)
    except Exception as error:
        raise SubmissionFailed(describe(error, path)) from None


def _packed(packer: Encoder, output: Any, arguments: dict[str, Any], path: Path, *, with_state: bool) -> dict[str, Any]:
    """The result on its way out, and what became of the arguments; their values only `with_state`.

    Raises `SubmissionFailed`: both may be too large, of odd types, or break when read.
    """
    what = "the result cannot be brought back"
    try:
        packed = {"output": packer.pack(output)}
        what = "an argument cannot be read any more"
        if with_state:
            packed["state"] = packer.pack(state_in(arguments))
        return packed | {"arguments": packer.facts(arguments), "after": packer.digests(arguments)}
    except ValueRefused as error:
        raise SubmissionFailed(Failure("refused", "", str(error), None, "")) from None
    except Exception as error:
        failure = describe(error, path)
        message = f"{what}: {failure.type_name}: {failure.message}"
        raise SubmissionFailed(Failure("refused", "", message, failure.line, failure.traceback)) from None


def _build_function(source: str) -> Build:
    """`build(drawn, device)` of the exercise's given.py; without one, what was drawn is passed as it is.

    It raises `GivenBroke` when the author's code breaks.
    """
    given = ModuleType("given")
    with authors_code():
        exec(compile(source, GIVEN, "exec"), given.__dict__)
    build: Build | None = getattr(given, "build", None)
    if build is None:
        return lambda drawn, _: drawn

    def built(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
        with authors_code():
            arguments: object = build(drawn, device)
        if not isinstance(arguments, dict):
            said = f"build() must return a dict of arguments, not a {type(arguments).__name__}"
            line = getattr(getattr(build, "__code__", None), "co_firstlineno", 1)
            raise GivenBroke({"said": said, "frames": [[line, "build"]]})
        return arguments

    return built


def _restore_defaults(spec: MachineSpec) -> None:
    """Torch's process-wide defaults, whatever the scenario before left behind.

    But for one: convolutions and RNNs of a real GPU do not use TF32 by themselves. It would cost them the digits that
    `parity` asks for, and a learner has not asked for it.
    """
    torch.set_float32_matmul_precision("highest")
    with torch.backends.__allow_nonbracketed_mutation():  # also where somebody has forbidden it
        torch.backends.cudnn.allow_tf32 = spec.kind != "cuda"
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    if spec.kind == "virtual":
        torch.default_generator.manual_seed(0)  # torch's own way writes down a stack for each kind of device: 5 ms
    else:
        torch.manual_seed(0)
