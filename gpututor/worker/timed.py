"""Timed calls on real devices: the inputs of many calls come in one frame, all results go back in one.

Nothing is recorded or traced meanwhile, and no clock is read here: the judge has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gpututor.wire.frames import Frame
from gpututor.wire.messages import Failure, MachineSpec
from gpututor.wire.observed import ValueRefused
from gpututor.wire.packer import Packer
from gpututor.wire.unpacker import Unpacker, materialise
from gpututor.worker.between import Between
from gpututor.worker.machines import EnteredMachine
from gpututor.worker.submission import SubmissionFailed, describe, flush_printed

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
        between: Between,
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
        unpacker = Unpacker(frame.buffers)
        buffers: list[bytes] = []
        nodes: list[dict[str, Any]] = []
        if header["keep"]:
            self._kept = []
        if self._flushed is not None:
            self._flushed.zero_()
        try:
            for position, node in enumerate(header["drawn"]):
                arguments = self._build(materialise(unpacker.unpack(node)), self._device)
                if header["again"]:
                    output = self._kept[position]
                else:
                    output = self._called(arguments, path)
                if header["keep"]:
                    self._kept.append(output)
                packer = Packer(self._machine.view)
                packer.buffers = buffers
                nodes.append(_packed(packer, output, path))
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


def _packed(packer: Packer, output: Any, path: Path) -> dict[str, Any]:
    try:
        return packer.pack(output)
    except ValueRefused as error:
        raise SubmissionFailed(Failure("refused", "", str(error), None, "")) from None
    except Exception as error:
        failure = describe(error, path)
        message = f"the result cannot be brought back: {failure.type_name}: {failure.message}"
        raise SubmissionFailed(Failure("refused", "", message, failure.line, failure.traceback)) from None
