"""Each part against the memory of a real step, and a GPU that the function does not use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpututor.checks import Call, Check, Finding, Run, memory, structure
from gpututor.trace.events import Kind
from gpututor.trace.formatting import size

BASELINE = "baseline.py"


def reference(**drawn: Any) -> dict[str, int]:
    """The structure of the result."""
    return {"weights": 0, "activations": 0, "gradients": 0, "optimizer": 0}


def part(name: str, sentence: str, advice: str) -> Check:
    """A part of the budget, within 5 % of what the baseline's step with the same inputs took."""

    def find(run: Run) -> Finding | None:
        for call, measured in zip(run.calls, run.baselines[BASELINE], strict=True):
            true, said = parts_of(measured)[name], call.output[name]
            if abs(said - true) > 0.05 * true:
                return Finding(
                    expected=f"result[{name!r}] within 5 % of {true:,} ({size(true)}), which a real step takes",
                    got=f"{said:,} with {described(call.drawn)}{run.which(call)}",
                    line=run.line_of(call),
                )
        return None

    check = Check(
        name,
        lambda machine: sentence,
        find,
        ("structure",),
        "If one part is wrong, the budget promises that a model fits when it does not.",
        advice,
        results_only=True,
        kind="values",
    )
    return replace(check, baselines=(BASELINE,))


def parts_of(step: Call) -> dict[str, int]:
    """Return the four parts, from the bytes allocated at the five waits of the baseline's step."""
    (device,) = step.memory
    allocated, readings = step.memory[device].before, []
    for event in step.trace:
        if event.kind in (Kind.ALLOCATE, Kind.FREE):
            allocated = event.allocated
        elif event.kind is Kind.SYNCHRONISE and event.name == "torch.cuda.synchronize":
            readings.append(allocated)
    start, loaded, forward, backward, stepped = readings
    return {
        "weights": loaded - start,
        "activations": forward - loaded,
        "gradients": backward - loaded,
        "optimizer": stepped - backward,
    }


def described(drawn: dict[str, Any]) -> str:
    """Return `Linear(200, 300), ReLU, Linear(300, 10) in float32`."""
    widths, names = drawn["widths"], {"relu": "ReLU", "gelu": "GELU"}
    layers = [f"Linear({widths[0]}, {widths[1]})"]
    for name, inputs, outputs in zip(drawn["activations"], widths[1:], widths[2:], strict=False):
        layers += [names[name], f"Linear({inputs}, {outputs})"]
    return f"{', '.join(layers)} in {drawn['dtype']}"


checks = [
    structure(reference, advice="A dict of four plain ints: bytes, not MiB."),
    part(
        "weights",
        "The bytes of the weights are right",
        "Elements times bytes per element, for all parameters. The dtype differs: ask the parameter.",
    ),
    part(
        "gradients",
        "The bytes of the gradients are right",
        "Each parameter gets a gradient of its own shape and dtype.",
    ),
    part(
        "optimizer",
        "The bytes of the optimizer's state are right",
        "How many tensors does this optimizer keep for each parameter?",
    ),
    part(
        "activations",
        "The bytes that the forward pass keeps are right",
        "Ask which tensor each layer needs in the backward pass: its input or its result. Count each tensor "
        "once, and leave the batch out.",
    ),
    memory(
        peak=0,
        name="nothing_taken",
        why="A budget that needs the GPU comes too late: the step may not fit.",
        advice="Compute with shapes alone. The model stays on the CPU.",
    ),
]
