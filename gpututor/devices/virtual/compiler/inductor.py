"""Stands in for Inductor: runs the graphs that Dynamo captures on the virtual GPU, and records graph breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from gpututor.devices.recorder import NOWHERE, Place
from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.compiler import pt2_private as pt2
from gpututor.devices.virtual.compiler.capture import seeing_virtual_tensors
from gpututor.devices.virtual.compiler.compiled_graph import CompiledGraph
from gpututor.devices.virtual.compiler.lowering import SeveralDevices, lower
from gpututor.devices.virtual.cost import compiled
from gpututor.devices.virtual.machine import active_machine
from gpututor.trace.events import COMPILES, GRAPH_BREAK, RECOMPILES

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@contextmanager
def capturing() -> Iterator[None]:
    """Let Dynamo capture a frame for the virtual GPU inside the block."""
    with (
        seeing_virtual_tensors(),
        patch.object(pt2.compile_fx, "compile_fx", compile_fx),
        patch.object(pt2.convert_frame, pt2.RECOMPILE_REASONS, _recompile_reasons),
        patch.object(pt2.BREAK_LOGGER, pt2.LOG_BREAK, _log_break),
    ):
        yield


def compile_fx(module: Any, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Stand in for Inductor's entry point: return a function that runs a graph on the virtual GPU.

    A graph that has no tensor on a GPU goes to Inductor. A graph that Inductor cannot lower here runs with eager
    kernels, after a warning.
    """
    if not any(value.device.type == "cuda" for value in (*inputs, *pt2.values_in(module)) if hasattr(value, "device")):
        return pt2.real_compile_fx(module, inputs, *args, **kwargs)
    options = dict(kwargs.get("config_patches") or {})
    replays = bool(options.pop("triton.cudagraphs", pt2.uses_cuda_graphs()))
    graph = pt2.copy_of(module)
    machine = active_machine()
    host, recorder = machine.clock.host, machine.recorder
    began = host.now
    try:
        if name := pt2.unpriced_operator(module):
            raise NotImplementedError(f"it calls {name}")
        if pt2.has_numbers_from_data(module):
            raise NotImplementedError("it computes sizes or numbers that depend on values")
        lowered = lower(module, inputs, options, _place)
    except Exception as error:  # the compiler's errors have no class in common
        text = str(error).strip().partition("\n")[0]
        text = text if isinstance(error, SeveralDevices) else f"{type(error).__name__}: {text}"
        cuda_errors.warn_at_caller(f"A compiled graph runs with eager kernels on the virtual GPU. {text}")
        if replays and isinstance(error, SeveralDevices):
            pt2.log_without_cuda_graph(error.no_cuda_graph)
        return graph
    if lowered.backward is not None and lowered.needs_eager_gradients:
        text = "it changes the shape of an input, or writes to an input that shares memory with another input"
        cuda_errors.warn_at_caller(
            f"Eager kernels compute the gradients of a compiled graph on the virtual GPU: {text}."
        )
    seconds = compiled.compile_s(lowered.count(), trains=lowered.backward is not None)
    host.spend(round(seconds * 1e9))
    number = pt2.compile_id()
    recorder.range(f"{COMPILES}{number}, {lowered.count()} kernels", launched=began, end=host.now)
    if replays and lowered.forward.no_cuda_graph:
        pt2.log_without_cuda_graph(lowered.forward.no_cuda_graph)
    return CompiledGraph(graph, lowered, number, replays=replays)


def _place(stack_trace: str) -> Place:
    """Return the innermost line of the learner's files in a stack trace."""
    is_learners = active_machine().recorder.places.is_learners
    for file, line in reversed(_FRAME.findall(stack_trace)):
        if is_learners(file):
            return file, int(line)
    return NOWHERE


def _log_break(*args: Any, **kwargs: Any) -> None:
    """Record the place and the reason of a graph break, or of a function that Dynamo leaves uncompiled."""
    logged = pt2.logged_break(kwargs)
    if logged is not None:
        reason, frames = logged
        machine = active_machine()
        now, is_learners = machine.clock.host.now, machine.recorder.places.is_learners
        places = [(frame.filename, frame.lineno or 0) for frame in frames if is_learners(frame.filename)]
        machine.recorder.range(GRAPH_BREAK + reason, launched=now, end=now, place=places[-1] if places else None)
    pt2.real_log_break(*args, **kwargs)


def _recompile_reasons(*args: Any, **kwargs: Any) -> Any:
    """Record the failed guard that makes Dynamo compile a frame again."""
    reasons = pt2.real_recompile_reasons(*args, **kwargs)
    machine = active_machine()
    for reason in reasons[:1]:
        now = machine.clock.host.now
        guard = reason.partition("\n")[0].partition("  #")[0].strip()  # without its source
        machine.recorder.range(RECOMPILES + guard, launched=now, end=now)
    return reasons
