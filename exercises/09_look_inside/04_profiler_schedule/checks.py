"""The trace has the right steps and ranges with GPU work in them, and the profiler does not change the training."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn

from gpututor.checks import Call, Wanted, files, parity, placement, structure, syncs, unmodified

RANGES = ("load", "forward", "backward", "update")
RECORDED = (2, 3)
LEARNING_RATE = 0.1
LEAST_FORWARD = 2
"""Kernels of the layer and of the loss."""


def reference(model: dict[str, torch.Tensor], loader: list[Any], trace_file: str) -> nn.Module:
    """Plain training by hand: the gradient of the mean squared error of a linear layer, and a step against it."""
    weight, bias = model["weight"].clone(), model["bias"].clone()
    for batch, target in loader:
        slope = 2 * (batch @ weight.T + bias - target) / target.numel()
        weight -= LEARNING_RATE * slope.T @ batch
        bias -= LEARNING_RATE * slope.sum(dim=0)
    trained = nn.Linear(weight.shape[1], weight.shape[0]).to(weight.dtype)
    trained.load_state_dict({"weight": weight, "bias": bias})
    return trained


def wrong_trace(events: list[dict[str, Any]], call: Call) -> str | None:
    """Return the fault of the trace's steps, ranges or copies, if any."""
    on_host = [event for event in events if event.get("cat") == "user_annotation"]
    steps = sorted(str(event["name"]) for event in on_host if str(event["name"]).startswith("ProfilerStep"))
    wanted = [f"ProfilerStep#{step}" for step in RECORDED]
    if steps != wanted:
        return f"it has {', '.join(steps[:6]) or 'no ProfilerStep'} instead of {' and '.join(wanted)}"
    counted = Counter(event["name"] for event in on_host)
    for name in RANGES:
        if counted[name] != len(RECORDED):
            return f"the range {name!r} is there {counted[name]} times instead of {len(RECORDED)}"
    on_gpu = [event for event in events if event.get("cat") == "gpu_user_annotation"]
    counted = Counter(event["name"] for event in on_gpu)
    for name in RANGES:
        if counted[name] != len(RECORDED):
            return f"the range {name!r} has GPU work in {counted[name]} of {len(RECORDED)} steps"
    kernels = [event for event in events if event.get("cat") == "kernel"]
    if len(inside("forward", kernels, on_gpu)) < LEAST_FORWARD * len(RECORDED):
        return "the loss is outside of 'forward'"
    return wrong_copies(events, on_gpu, call)


def inside(name: str, work: list[dict[str, Any]], on_gpu: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the copies or kernels that began in a range of that name, by the time of the GPU."""
    spans = [(event["ts"], event["ts"] + event["dur"]) for event in on_gpu if event["name"] == name]
    return [event for event in work if any(start <= event["ts"] <= end for start, end in spans)]


def wrong_copies(events: list[dict[str, Any]], on_gpu: list[dict[str, Any]], call: Call) -> str | None:
    """Return a fault if a copy of the recorded steps is missing or outside of `load`."""
    copies = [event for event in events if event.get("cat") == "gpu_memcpy" and "HtoD" in event["name"]]
    sizes = sorted(tensor.nbytes for step in RECORDED for tensor in call.drawn["loader"][step])
    if sorted(event["args"]["bytes"] for event in copies) != sizes:
        return "the copies to the GPU are not those of the third and the fourth step"
    return None if inside("load", copies, on_gpu) == copies else "a copy to the GPU is outside of 'load'"


checks = [
    structure(reference, advice="Return the model that was passed, after all its steps."),
    placement("device", advice="The model is on the GPU; move each batch to it, not the model to the batch."),
    syncs(
        at_most=4,
        why="A wait in each step changes what you measure.",
        advice="Do not print or fetch the loss in the loop.",
    ),
    parity(
        reference,
        why="A profiler observes a training run; it must neither change it nor end it early.",
        advice="Train on all pairs, with one backward, one optimizer.step() and one zero_grad() for each.",
    ),
    files(
        {"trace.json": Wanted("trace", look=wrong_trace)},
        why="Names make a timeline readable. The first steps are not typical, so leave them out.",
        advice=(
            "A schedule chooses the steps, record_function names the four parts, prof.step() ends each step, and a"
            " handler writes the file when the steps are recorded."
        ),
    ),
    unmodified(may_change=("model",)),
]
