"""Placement: every tensor of the result lives where it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpututor.checks.authors import called
from gpututor.checks.model import Applies, Check, Finding, Machine, Run, named, tensors_by_path
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
    """Each output tensor lives on `outputs`: `device` (the scenario's), a device's name, or these nested as the result.

    Gradients of leaves must live beside them.
    """

    def sentence(machine: Machine) -> str:
        if isinstance(outputs, str):
            return f"Every output lives on {_resolve(outputs, machine)}"
        return "Every output lives on the device that it should"

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            where = called(outputs, call.drawn, run.machine) if callable(outputs) else outputs
            tensors = tensors_by_path(call.output)
            if not tensors:
                return Finding("at least one tensor in the result", "a result without tensors", run.line_of(call))
            for path, tensor in tensors.items():
                place = _at(where, path)
                if place is None:
                    got = f"a tensor there, on {tensor.fact.device}{run.which(call)}"
                    return Finding(f"no tensor at {named(path)}", got, run.line_of(call))
                wanted = _resolve(place, run.machine)
                if tensor.fact.device != wanted:
                    return Finding(
                        expected=f"{named(path)} on {wanted}",
                        got=f"{named(path)} on {tensor.fact.device}{run.which(call)}",
                        line=_line_of_last_move(call.trace, wanted) or run.line_of(call),
                        advice=f"Create it on {wanted}, or move it there once.",
                    )
                if tensor.grad is not None and tensor.grad.fact.device != wanted:
                    return Finding(
                        expected=f"the gradient of {named(path)} on {wanted}",
                        got=f"it is on {tensor.grad.fact.device}{run.which(call)}",
                        line=run.line_of(call),
                        advice="Let autograd make gradients: they live beside their tensors.",
                    )
        return None

    return Check(name, sentence, find, ("structure",), why, advice, on, results_only=True)


def _resolve(where: Any, machine: Machine) -> str:
    return machine.device if where == "device" else str(where)


def _at(where: Any, path: str) -> Any:
    """The part of `where` that `path` leads to; a device's name holds for all below it. None where it says nothing."""
    for part in path.split(".") if path else ():
        number = int(part) if part.isdecimal() else -1
        match where:
            case dict():
                where = where.get(part, where.get(number))
            case list() | tuple():
                where = where[number] if 0 <= number < len(where) else None
    return where


def _line_of_last_move(events: Any, wanted: str) -> int | None:
    """The line of the last copy that took something away from the device where it should be."""
    if wanted == "cpu":
        return None  # everything begins there: each copy to a device would look like one

    def away(event: Event) -> bool:
        return bool(event.target) and event.source == wanted and event.target != wanted

    return max((event.line for event in events if away(event) and event.line is not None), default=None)
