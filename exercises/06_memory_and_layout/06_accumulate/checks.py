"""Loss and gradients of the whole batch, at the peak of one piece, without a wait."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import Check, Finding, Machine, Run, memory, parity, placement, structure, syncs, transfers

Tensors = dict[str, torch.Tensor]


def reference(state: Tensors, old: Tensors, batch: torch.Tensor, targets: torch.Tensor, piece: int) -> dict[str, Any]:
    """The whole batch at once, and the gradients by the chain rule."""
    hidden = torch.tanh(batch @ state["0.weight"].T + state["0.bias"])
    error = hidden @ state["2.weight"].T + state["2.bias"] - targets
    backward = 2 * error / error.numel()
    inside = backward @ state["2.weight"] * (1 - hidden.square())
    gradients = {
        "0.weight": inside.T @ batch,
        "0.bias": inside.sum(0),
        "2.weight": backward.T @ hidden,
        "2.bias": backward.sum(0),
    }
    return {"loss": error.square().mean(), "gradients": gradients}


def most_bytes(drawn: dict[str, Any], machine: Machine) -> int:
    """Four tensors as wide as the network is inside, for one piece, and the gradients twice over."""
    wide = drawn["state"]["0.bias"].numel()
    gradients = sum(-(-tensor.nbytes // 512) * 512 for tensor in drawn["state"].values())
    return int(4 * 4 * wide * drawn["piece"] + 2 * gradients + 8 * 512)


def with_a_graph(run: Run) -> Finding | None:
    """Find a loss that still has an autograd graph."""
    for call in run.calls:
        if call.output["loss"].fact.requires_grad:
            got = f"result['loss'] requires gradients{run.which(call)}"
            return Finding("a loss that requires no gradients", got, run.line_of(call))
    return None


checks = [
    structure(reference),
    placement(advice="The tensor that adds up the loss belongs where the batch is."),
    syncs(
        at_most=0,
        why="Pieces are small. A host that waits after each of them leaves the device idle between them.",
        advice="Add up the detached losses on the device. Sizes are known to the host: len(inputs) needs no wait.",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="Model and batch are on the device. Copies to the host take time, and the CPU is slow.",
        advice="Leave everything on the device: pieces make it fit.",
    ),
    memory(
        peak=most_bytes,
        why="The point of pieces is that only one of them keeps its activations at a time.",
        advice="Call backward() for each piece, inside the loop: it frees the piece's activations.",
    ),
    Check(
        "graph",
        lambda machine: "Its loss has no graph",
        with_a_graph,
        ("structure",),
        "A loss with its graph keeps the nodes of all pieces.",
        "Detach each piece's loss when you add it to the total.",
    ),
    parity(
        reference,
        why="Settings that were tuned for the large batch need the gradients of the large batch.",
        advice="Clear old gradients once, before the loop. Weigh each piece's mean by its share of the samples: "
        "len(inputs) / len(batch).",
    ),
]
