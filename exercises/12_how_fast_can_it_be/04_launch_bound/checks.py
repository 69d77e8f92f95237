"""The mean of all models, in as many launches for two models as for forty."""

from __future__ import annotations

import torch

from gpututor.checks import Check, Finding, Run, launches, parity, placement, speed, structure, syncs, transfers


def reference(state: dict[str, torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
    """Return the mean of the networks' formulas."""
    hidden = torch.einsum("rf,mhf->mrh", batch, state["0.weight"]) + state["0.bias"][:, None]
    outputs = torch.einsum("mrh,mch->mrc", hidden.clamp(min=0), state["2.weight"]) + state["2.bias"][:, None]
    return outputs.mean(dim=0)


def with_a_graph(run: Run) -> Finding | None:
    """Find a result that still has its graph."""
    for call in run.calls:
        if call.output.fact.requires_grad:
            got = f"the result requires gradients{run.which(call)}"
            return Finding("a result that requires no gradients", got, run.line_of(call))
    return None


checks = [
    structure(reference, advice="One mean for each row and class."),
    placement("device", advice="Leave the mean on the device."),
    syncs(at_most=0, why="The host needs no value.", advice="Read no value: everything stays on the GPU."),
    transfers(to_device=0, to_host=0, why="Everything is on the device already.", advice="Copy nothing."),
    parity(
        reference,
        why="Each model's layers belong together. A transposed weight or another model's bias gives another answer.",
        advice="Stack weights (models, n, k) and biases (models, n); the mean runs over the models, dimension 0.",
    ),
    Check(
        "graph",
        lambda machine: "Its result has no graph",
        with_a_graph,
        needs=("structure",),
        why="A graph keeps the activations of all models in memory.",
        advice="Decorate the function with torch.no_grad() or torch.inference_mode().",
    ),
    launches(
        (1, 16),
        why="Each launch costs the host some microseconds, and these kernels end sooner than that.",
        advice="Stack each kind of parameter once. Then one batched product per layer computes all models.",
    ),
    speed(
        0.9,
        compared_with="one model after the other",
        why="Forty small kernels take forty launches; one larger kernel takes one.",
        advice="Loop over the models only to build the lists for torch.stack. Detach the stacks, not each parameter.",
    ),
]
