"""What may not be done now: waits while a graph is captured, and where `set_sync_debug_mode` forbids them."""

from __future__ import annotations

import warnings

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.face.warned import nearest_outside
from gpututor.devices.virtual.machine import VirtualGpu, VirtualMachine

WARN, ERROR = 1, 2
_WORDS = "called a synchronizing CUDA operation"


def is_captured(machine: VirtualMachine, gpu: VirtualGpu) -> bool:
    """Whether this thread's work on `gpu` becomes part of a graph."""
    return machine.capture is not None and machine.capture.takes(gpu.index, machine.stream_of(gpu))


def ask(machine: VirtualMachine, gpu: VirtualGpu | None = None, stream: int | None = None) -> None:
    """Whether work is done may not be asked during a capture, which fails by it; raises CUDA's error.

    `gpu` and `stream` are whose work it is: that of a captured stream may never be asked about, nor may that of its
    whole GPU, which has no `stream`. The rest is forbidden as the capture's `capture_error_mode` says; None for what
    has no GPU of its own, such as an event.
    """
    capture = machine.capture
    if capture is None:
        return
    captured = gpu is capture.gpu and (stream is None or capture.takes(capture.gpu.index, stream))
    if captured or capture.forbids():
        capture.failed = True
        raise errors.while_capturing()


def wait(machine: VirtualMachine, gpu: VirtualGpu | None = None) -> None:
    """The host is about to wait for all of a GPU, or, without one, for an event; raises CUDA's error in a capture."""
    if machine.capture is not None:
        ask(machine, gpu)


def wait_for_stream(machine: VirtualMachine, gpu: VirtualGpu, stream: int) -> None:
    """The same for a stream or a copy, of which torch's debug mode tells (c10/cuda/CUDAFunctions.cpp).

    Waits for all of a GPU and for events are not among them.
    """
    if machine.capture is not None:
        ask(machine, gpu, stream)
    if machine.sync_debug == WARN:
        _warn()
    elif machine.sync_debug == ERROR:
        raise RuntimeError(_WORDS)


def _warn() -> None:
    """Once for each line, as torch warns."""
    frame = nearest_outside()
    if frame is not None:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(_WORDS, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry)
