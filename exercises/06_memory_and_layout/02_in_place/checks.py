"""The same loss and gradients, with one kept tensor for each layer instead of two."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import (
    Check,
    Finding,
    Run,
    launches,
    memory,
    parity,
    placement,
    structure,
    syncs,
    transfers,
    unmodified,
)


def reference(rows: torch.Tensor, mean: torch.Tensor, layers: list[Any]) -> dict[str, Any]:
    """The network and its backward pass written out, layer by layer, without autograd."""
    inputs, outputs = [], []
    hidden = rows - mean
    for weight, bias in layers:
        inputs.append(hidden)
        product = hidden @ weight + bias
        hidden = torch.where(product > 0, product, torch.expm1(product))
        outputs.append(hidden)
    output = hidden + rows
    backward = 2 * output / output.numel()
    gradients: list[torch.Tensor] = []
    for (weight, _), before, after in zip(reversed(layers), reversed(inputs), reversed(outputs), strict=True):
        backward = backward * torch.where(after > 0, 1, after + 1)
        gradients = [before.T @ backward, backward.sum(0), *gradients]
        backward = backward @ weight.T
    return {"loss": output.square().mean(), "gradients": gradients}


def most_bytes(drawn: dict[str, Any], machine: Any) -> int:
    """L + 7 tensors of the size of the rows, and the gradients themselves, each rounded as the allocator does."""
    rows = -(-drawn["rows"].nbytes // 512) * 512
    small = sum(-(-part.nbytes // 512) * 512 for layer in drawn["layers"] for part in layer)
    return (len(drawn["layers"]) + 7) * rows + small


def most_products(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    """Products: for each layer one of the forward pass and two of the backward pass."""
    return 0, 3 * len(drawn["layers"])


def with_a_graph(run: Run) -> Finding | None:
    """Find a loss that still has an autograd graph."""
    for call in run.calls:
        if call.output["loss"].fact.requires_grad:
            got = f"result['loss'] requires gradients{run.which(call)}"
            return Finding("a loss that requires no gradients", got, run.line_of(call))
    return None


checks = [
    structure(reference),
    placement(),
    unmodified(
        why="The rows belong to the caller, who will use them again in the next epoch.",
        advice="The first operation on an argument makes a new tensor: rows - mean, not rows -= mean. What you made "
        "yourself, you may change.",
    ),
    parity(
        reference,
        why="A change that autograd does not see, such as a change of x.data, gives wrong gradients without an error.",
        advice="Let autograd see each change. If it then complains, something still needs the old values there: make "
        "a new tensor at that place.",
    ),
    Check(
        "graph",
        lambda machine: "Its loss has no graph",
        with_a_graph,
        ("structure",),
        "A loss with its graph keeps the nodes of that graph; adding to it makes the graph longer.",
        "Return loss.detach().",
    ),
    syncs(
        at_most=0,
        why="A training step that waits for the device leaves it idle before the next one.",
        advice="Return the loss as a tensor; the caller decides when to read it.",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="Everything is on the device. Copies to the host take time, and the CPU is slow.",
        advice="Leave everything on rows.device, and save memory there.",
    ),
    memory(
        peak=most_bytes,
        why="What the forward pass keeps for the backward pass is most of the memory of training.",
        advice="Which tensors are alive at the end of the forward pass? Let elu work in place, and keep no name "
        "for a tensor that you do not need again.",
    ),
    launches(
        by_name={"aten::*mm": most_products},
        name="computed_once",
        why="Working in place saves memory for free. Checkpoints cost time: they compute each layer twice.",
        advice="One forward pass with elu in place is enough; no layer needs to run again.",
    ),
]
