"""Probabilities, where the model is, by no more than one copy, and without a graph."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import Check, Finding, Machine, Run, memory, parity, placement, structure, transfers, unmodified


def reference(state: dict[str, torch.Tensor], batch: torch.Tensor, **places: str) -> torch.Tensor:
    """The classifier's probabilities, with its running statistics and without dropout."""
    hidden = batch @ state["0.weight"].T + state["0.bias"]
    hidden = (hidden - state["1.running_mean"]) / (state["1.running_var"] + 1e-5).sqrt()
    hidden = (hidden * state["1.weight"] + state["1.bias"]).clamp(min=0)
    scores = hidden @ state["4.weight"].T + state["4.bias"]
    powers = (scores - scores.amax(dim=1, keepdim=True)).exp()
    return powers / powers.sum(dim=1, keepdim=True)


def copies(drawn: dict[str, Any], machine: Machine, target: str) -> int:
    """Return 1 if the batch has to go to `target`, otherwise 0."""
    has_gpu = machine.device != "cpu"
    return int(has_gpu and drawn["model_place"] == target and drawn["batch_place"] != target)


def most_bytes(drawn: dict[str, Any], machine: Machine) -> int:
    """Bytes of the batch, of two and a half hidden tensors, and of small tensors. A graph for many rows takes more."""
    wide = len(drawn["batch"]) * drawn["state"]["0.bias"].nbytes
    return int(drawn["batch"].nbytes + 2.5 * wide + 16 * 512)


def with_a_graph(run: Run) -> Finding | None:
    """Find a result that still has an autograd graph."""
    for call in run.calls:
        if call.output.fact.requires_grad:
            got = f"the result requires gradients{run.which(call)}"
            return Finding("a result that requires no gradients", got, run.line_of(call))
    return None


checks = [
    structure(
        reference,
        advice="model(batch) gives scores; .softmax(dim=1) makes probabilities of each row.",
    ),
    placement(
        outputs=lambda drawn, machine: drawn["model_place"],
        why="The caller continues to compute on the model's device.",
        advice="next(model.parameters()).device is where the model is. Move the batch there, and leave the result.",
    ),
    transfers(
        to_device=lambda drawn, machine: copies(drawn, machine, "device"),
        to_host=lambda drawn, machine: copies(drawn, machine, "cpu"),
        why="A model has far more bytes than a batch, and its caller expects to find it where it was.",
        advice="Move only the batch, and only to the model: batch.to(device) copies nothing when it is there already.",
    ),
    unmodified(
        name="statistics",
        why="In training mode each batch changes the running statistics: after predict() the model has changed.",
        advice="Call model.eval() before the forward pass.",
    ),
    parity(
        reference,
        why="In training mode dropout removes features at random, and normalization uses this batch's statistics.",
        advice="model.eval() before the forward pass; softmax over the classes, dim=1, after it.",
    ),
    Check(
        "graph",
        lambda machine: "Its result has no graph for gradients",
        with_a_graph,
        needs=("structure",),
        why="The graph keeps every layer's intermediate results in the device's memory, for a backward "
        "pass that never runs.",
        advice="Predict inside torch.inference_mode() or torch.no_grad(), as a decorator or a with block.",
    ),
    memory(
        peak=most_bytes,
        why="detach() at the end is too late: until then the graph keeps each layer's result.",
        advice="Predict inside torch.inference_mode() or torch.no_grad(), so that nothing is kept.",
        on=lambda machine: machine.virtual and machine.gpus > 0,  # mps reports no peak, and libraries take memory
    ),
]
