"""The worker's service: loads a submission, calls it, and answers the judge's requests scenario by scenario."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import torch

from gpututor.protocol.decode import Decoder, to_tensor
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import EndOfFrames, Frame, FrameError
from gpututor.protocol.messages import Failure, MachineSpec, Sizes
from gpututor.protocol.values import ValueRefused, state_in
from gpututor.trace.serialization import trace_to_json
from gpututor.worker.connection import Connection, failed
from gpututor.worker.files import collect_files, load_files, remove_written
from gpututor.worker.guard import CallGuard, TamperGuard
from gpututor.worker.integrity import MOST_NAMED
from gpututor.worker.machine import CallMeasurement, EnteredMachine, enter_machine, leave_idle_machine
from gpututor.worker.ranks import destroy_process_group, device_of, serve_ranks
from gpututor.worker.submission import (
    Build,
    GivenFailed,
    SubmissionFailed,
    build_function,
    call,
    describe,
    flush_printed,
    load,
    run,
)

FLUSHED_BYTES = 256 << 20
"""More than any second-level cache: today's largest has 126 MiB."""
_NO_RESULT = "the result cannot be sent to the grader"
_NO_ARGUMENT = "an argument cannot be read any more"
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Scenario:
    """A scenario's machine and its guards."""

    spec: MachineSpec
    machine: EnteredMachine
    call_guard: CallGuard
    tamper_guard: TamperGuard
    path: Path


class TimedCalls:
    """Batches of calls that the judge times. Nothing is recorded or traced, and the worker reads no clock."""

    def __init__(self, function: Callable[..., Any], build: Build, scenario: _Scenario) -> None:
        self._function, self._build, self._scenario = function, build, scenario
        self._device = torch.device(scenario.spec.device)
        self._stored: list[Any] = []
        on_accelerator = self._device.type != "cpu"
        self._flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device=self._device) if on_accelerator else None

    def answer(self, frame: Frame) -> tuple[dict[str, Any], list[bytes]]:
        """Call the function for each of the frame's inputs, which are built one after the other.

        With `keep`, the results are stored. With `again`, the stored results are the answer and nothing is called:
        that is the cost of transferring inputs and results. Each result is encoded before the next call, so a
        function may return the same buffer again.
        """
        scenario = self._scenario
        header, machine, path, guard = frame.header, scenario.machine, scenario.path, scenario.call_guard
        decoder = Decoder(frame.buffers)
        buffers: list[bytes] = []
        nodes: list[dict[str, Any]] = []
        if header["keep"]:
            self._stored = []
        if self._flushed is not None:
            self._flushed.zero_()
        try:
            for position, node in enumerate(header["drawn"]):
                arguments = self._build(to_tensor(decoder.unpack(node)), self._device)
                output = self._stored[position] if header["again"] else self._call(arguments)
                if header["keep"]:
                    self._stored.append(output)
                encoder = Encoder(machine.view)
                encoder.buffers = buffers
                nodes.append(_checked(_NO_RESULT, path, encoder.pack, output))
            run(machine.meter.synchronize, path)  # work that nothing waited for counts too
            guard.resume()
            flush_printed()
            guard.suspend()
        except SubmissionFailed as error:
            return failed(error.failure), []
        return {"event": "timed", "outputs": nodes}, buffers

    def _call(self, arguments: dict[str, Any]) -> Any:
        guard = self._scenario.call_guard
        try:
            guard.resume()
            return self._function(**arguments)
        except BaseException as error:
            raise SubmissionFailed(describe(error, self._scenario.path)) from None
        finally:
            guard.suspend()


def _checked(action: str, path: Path, read: Callable[..., Result], values: Any) -> Result:
    """Return `read(values)`. Raises `SubmissionFailed` for values that are too large, unsupported, or raise errors."""
    try:
        return read(values)
    except ValueRefused as error:
        raise SubmissionFailed(Failure("refused", "", str(error), None, "")) from None
    except Exception as error:
        failure = describe(error, path)
        message = f"{action}: {failure.type_name}: {failure.message}"
        raise SubmissionFailed(Failure("refused", "", message, failure.line, failure.traceback)) from None


def serve(stream: BinaryIO, scratch: Path) -> int:
    """Serve one scenario after another, until the judge closes; return the exit code."""
    connection = Connection(stream)
    try:
        while True:
            _serve_scenario(connection, scratch)
    except EndOfFrames:
        return 0
    except FrameError:
        raise
    except Exception as error:
        # A fault of gpututor or of the exercise, not the learner's: the judge reports an internal error.
        connection.changes = None
        given = error.fault if isinstance(error, GivenFailed) else None
        connection.answer({"event": "broken", "words": traceback.format_exc()[-4000:], "given": given})
        return 1


def _serve_scenario(connection: Connection, scratch: Path) -> None:
    """Serve one `load` and its calls up to `leave`, or one `open`, which runs nothing."""
    first = connection.next()
    request = first.header
    if request["op"] == "open":
        connection.sizes = Sizes(**request["sizes"])
        leave_idle_machine()
        connection.answer(*load_files(first, connection.sizes))
        return
    if "processes" in request:
        serve_ranks(connection, scratch, request, serve)
        return
    connection.sizes = Sizes(**request["sizes"])
    path = scratch / request["file_name"]
    rank = request.get("rank")
    if rank is None:
        path.write_text(request["source"], encoding="utf-8")
    spec, observed = MachineSpec.from_json(request["machine"]), request.get("observed", True)
    _restore_defaults(spec)
    with enter_machine(spec, str(path), observed=observed) as machine:
        machine.recorder.enabled = False
        build = build_function(request["given"])
        guard = CallGuard(machine.recorder, path)
        scenario = _Scenario(spec, machine, guard, TamperGuard(machine, connection), path)

        def changes() -> dict[str, Any]:
            names = [*guard.hooks, *scenario.tamper_guard.changed()]
            return {"changed": names[:MOST_NAMED], "outside": [*guard.lines]}

        # Looking for changes takes a millisecond, which must not be timed.
        connection.changes = changes if observed else None
        function, header = _load(path, request["entry"], guard)
        connection.answer(header)
        timed: TimedCalls | None = None
        while (frame := connection.next()).header["op"] in ("call", "time"):
            if function is None:
                raise ValueError("a call without a loaded function")
            if frame.header["op"] == "time":
                timed = timed or TimedCalls(function, build, scenario)
                connection.answer(*timed.answer(frame))
                continue
            drawn = to_tensor(Decoder(frame.buffers).unpack(frame.header["drawn"]))
            arguments = build(drawn, device_of(rank, spec.device, spec.scenario.gpus)) | frame.header.get("more", {})
            remove_written(scratch, request["files"], path.name)
            header, buffers = _answer_to_call(function, arguments, scenario, request["wants"], connection.sizes)
            if request["files"] and header["event"] == "returned":
                listing, contents = collect_files(scratch, request["files"], connection.sizes, path.name)
                header, buffers = header | listing, buffers + contents
            if rank is not None:
                header |= destroy_process_group()
            connection.answer(header, buffers)
        guard.resume()
        flush_printed()
        guard.suspend()
        last = changes()
        connection.changes = lambda: last
    connection.answer({"event": "left"})
    connection.changes = None


def _load(path: Path, entry: str, guard: CallGuard) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """Return the submission's function, or None, and the answer."""
    try:
        return load(path, entry), {"event": "loaded"}
    except SubmissionFailed as error:
        return None, failed(error.failure)
    finally:
        flush_printed()
        guard.suspend()


def _answer_to_call(
    function: Callable[..., Any], arguments: dict[str, Any], scenario: _Scenario, wants: list[str], sizes: Sizes
) -> tuple[dict[str, Any], list[bytes]]:
    """Call the learner's function, and record the devices during the call only."""
    machine, recorder, path = scenario.machine, scenario.machine.recorder, scenario.path
    before = len(recorder.complete())
    recorder.trace.limit = before + sizes.events
    measurement = CallMeasurement(machine.meter)
    forget_compiled()
    try:
        # A tuple, so that code of the submission that reaches this frame cannot change it.
        digests = (*Encoder(machine.view).digests(arguments).items(),)
        measurement.begin()
        scenario.tamper_guard.call_begins()
        recorder.enabled = True
        try:
            output, line = call(function, arguments, path, scenario.call_guard)
            run(measurement.returned, path, output)  # errors of a device appear at the next wait
        finally:
            scenario.tamper_guard.check_recorder(before + sizes.events)
            recorder.enabled = False
            if machine.virtual is not None:
                machine.virtual.recover()  # after an error, the next call needs working GPUs
        encoder = Encoder(machine.view, sizes.result_bytes)
        encoded = _encode(encoder, output, arguments, path, with_state="arguments" in wants)
        header = {"event": "returned", "line": line, **encoded}
        del encoded
        header |= {"before": dict(digests), "span": measurement.span, "unpriced": measurement.unpriced}
        header["fp32_precision"] = str(torch.backends.cuda.matmul.fp32_precision)
    except SubmissionFailed as error:
        return {**failed(error.failure), "trace": trace_to_json(recorder.complete().since(before))}, []
    buffers = encoder.buffers
    # Leaked memory is measured without the result.
    del output, encoder
    header |= {"memory": measurement.memory(left="left" in wants)}
    return {**header, "trace": trace_to_json(recorder.complete().since(before))}, buffers


def forget_compiled() -> None:
    """Drop what `torch.compile` compiled in an earlier call, so that each call's first use compiles."""
    frames = sys.modules.get("torch._dynamo.convert_frame")
    # Without a compiled frame there is nothing to drop; the reset would import Inductor, which takes seconds.
    if getattr(frames, "FRAME_COUNTER", frames is not None):
        torch.compiler.reset()


def _encode(
    encoder: Encoder, output: Any, arguments: dict[str, Any], path: Path, *, with_state: bool
) -> dict[str, Any]:
    """Encode the result, and the arguments after the call; their values only `with_state`."""
    encoded = {"output": _checked(_NO_RESULT, path, encoder.pack, output)}
    if with_state:
        encoded["state"] = _checked(_NO_ARGUMENT, path, lambda values: encoder.pack(state_in(values)), arguments)
    encoded["arguments"] = _checked(_NO_ARGUMENT, path, encoder.facts, arguments)
    encoded["after"] = _checked(_NO_ARGUMENT, path, encoder.digests, arguments)
    return encoded


def _restore_defaults(spec: MachineSpec) -> None:
    """Restore torch's process-wide defaults after an earlier scenario.

    One default differs: convolutions and RNNs of a real GPU do not use TF32. It is less precise than `parity` allows,
    and the learner did not ask for it.
    """
    torch.set_float32_matmul_precision("highest")
    with torch.backends.__allow_nonbracketed_mutation():  # also if the submission has forbidden it
        torch.backends.cudnn.allow_tf32 = spec.kind != "cuda"
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    if spec.kind == "virtual":
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` records a stack for each kind of device: 5 ms
    else:
        torch.manual_seed(0)
