"""Placement: every tensor of the result is on the right device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpututor.checks.author_errors import call_author
from gpututor.checks.model import Applies, Call, Check, Finding, Machine, Run, in_each_call
from gpututor.checks.trees import part_at, part_name, tensors_by_path
from gpututor.trace.events import Event

WHY = "Work runs where its tensors live. A tensor on the wrong device is copied again and again, or stops the program."

Where = str | dict[Any, Any] | list[Any]


def placement(
    outputs: Where | Callable[[dict[str, Any], Machine], Where] = "device",
    *,
    name: str = "placement",
    why: str = WHY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that each output tensor is on the device of `outputs`, and the gradients of leaves on the same device.

    `outputs` is "device" (the scenario's device), a device's name, or such names nested like the result.
    """

    def sentence(machine: Machine) -> str:
        if isinstance(outputs, str):
            return f"Every output lives on {_resolve(outputs, machine)}"
        return "Every output lives on the right device"

    def find(run: Run, call: Call) -> Finding | None:
        where = call_author(outputs, call.drawn, run.machine) if callable(outputs) else outputs
        tensors = tensors_by_path(call.output)
        if not tensors:
            return Finding("at least one tensor in the result", "a result without tensors", run.line_of(call))
        for path, tensor in tensors.items():
            name, device = part_name(path, call.output), tensor.fact.device
            place = part_at(where, path)
            if place is None:
                return run.finding(call, f"no tensor at {name}", f"a tensor there, on {device}")
            wanted = _resolve(place, run.machine)
            if device != wanted:
                line, advice = _line_of_last_move(call.trace, wanted), f"Create it on {wanted}, or move it there once."
                return run.finding(call, f"{name} on {wanted}", f"{name} on {device}", line, advice)
            if tensor.grad is not None and tensor.grad.fact.device != wanted:
                expected, got = f"the gradient of {name} on {wanted}", f"it is on {tensor.grad.fact.device}"
                advice = "Let autograd create gradients: it puts them on the device of their tensors."
                return run.finding(call, expected, got, advice=advice)
        return None

    return Check(name, sentence, in_each_call(find), ("structure",), why, advice, on, results_only=True)


def _resolve(where: Any, machine: Machine) -> str:
    return machine.device if where == "device" else str(where)


def _line_of_last_move(events: Iterable[Event], wanted: str) -> int | None:
    """Return the line of the last copy away from the wanted device."""
    if wanted == "cpu":
        return None  # values start on the CPU: each copy to a device would count as a move away
    away = (event for event in events if event.source == wanted and event.target not in ("", wanted))
    return max((event.line for event in away if event.line is not None), default=None)
