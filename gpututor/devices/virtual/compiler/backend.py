"""Inductor's backend for the virtual GPU, and Dynamo's hooks while a virtual GPU is on."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from gpututor.devices.recorder import NOWHERE, Place
from gpututor.devices.virtual.compiler import pt2_private as pt2
from gpututor.devices.virtual.compiler.compiled_graph import CompiledGraph
from gpututor.devices.virtual.compiler.lowering import Lowered, lower
from gpututor.devices.virtual.compiler.tracing import tracing
from gpututor.devices.virtual.cost import compiled
from gpututor.devices.virtual.execution.host_work import meter
from gpututor.devices.virtual.machine import active_machine, is_on

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def compile_fx(module: Any, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Stand in for Inductor's entry point: return a function that runs the graph on the virtual GPU."""
    if not is_on() or not any(isinstance(value, torch.Tensor) and value.device.type == "cuda" for value in inputs):
        return pt2.real_compile_fx(module, inputs, *args, **kwargs)
    options = dict(kwargs.get("config_patches") or (args[1] if len(args) > 1 else None) or {})
    replays = bool(options.pop("triton.cudagraphs", torch._inductor.config.triton.cudagraphs))
    graph = pt2.copied(module)
    machine = active_machine()
    began = machine.clock.host.now
    try:
        lowered = lower(module, inputs, options, _place)
    except Exception as error:  # Inductor's own errors have no common class
        import os, traceback
        if os.environ.get('DEBUGC'): traceback.print_exc()
        reason = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
        warnings.warn(f"torch.compile: a graph runs with eager kernels on the virtual GPU: {reason}", stacklevel=2)
        return graph
    seconds = compiled.compile_s(lowered.kernels(), trains=lowered.backward is not None)
    machine.clock.host.spend(round(seconds * 1e9))
    number = pt2.compile_id()
    machine.recorder.range(f"Inductor {number}: {lowered.kernels()} kernels", launched=began, end=machine.clock.host.now)
    meter().resume()
    return CompiledGraph(graph, lowered, number, replays=replays)


def _place(stack_trace: str) -> Place:
    """Return the innermost learner's line of a stack trace."""
    is_learners = active_machine().recorder.places.is_learners
    for file, line in reversed(_FRAME.findall(stack_trace)):
        if is_learners(file):
            return file, int(line)
    return NOWHERE


@contextmanager
def capturing() -> Iterator[None]:
    """Capture and compile for the virtual GPU inside the block."""
    with tracing(), patch.object(pt2.compile_fx, "compile_fx", compile_fx):
        yield
    # Dynamo's own time is part of the modeled time to compile.
    meter().resume()
