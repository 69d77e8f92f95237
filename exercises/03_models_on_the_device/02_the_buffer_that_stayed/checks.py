"""The layer's state, its place, and no copy for each batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpututor.checks import Check, Finding, Run, parity, placement, structure, transfers

STATE = 3
"""mean, std and gain: one copy for each."""


class Like(nn.Module):
    """A module with the state of the task."""

    def __init__(self, mean: torch.Tensor, std: torch.Tensor, gain: torch.Tensor) -> None:
        super().__init__()
        self.gain = nn.Parameter(gain)
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)


def reference(mean: torch.Tensor, std: torch.Tensor, gain: torch.Tensor, batches: list[torch.Tensor]) -> dict[str, Any]:
    """The state, and the standardized batches, on the CPU."""
    scale = gain / std
    return {"layer": Like(mean, std, gain), "batches": [batch * scale - mean * scale for batch in batches]}


def cut_off(run: Run) -> Finding | None:
    """Find the first output that has no graph back to the gain."""
    for call in run.calls:
        for number, batch in enumerate(call.output["batches"]):
            if not batch.fact.requires_grad:
                got = f"result['batches'][{number}] has no graph back to the gain{run.which(call)}"
                return Finding("results through which the gain can be learned", got, run.line_of(call))
    return None


checks = [
    structure(
        reference,
        why="A tensor that is neither parameter nor buffer does not move and is not saved; the optimizer "
        "changes parameters.",
        advice="self.register_buffer(name, tensor) for what is not learned, nn.Parameter(tensor) for what is; with "
        "persistent=False the state dict would lack it.",
    ),
    placement(
        outputs="device",
        why="The layer's state has to be where its batches are.",
        advice="Move the layer, layer.to(device), and let it keep the tensors that it was moved with.",
    ),
    transfers(
        to_device=STATE,
        to_host=0,
        why="State that moves with the model crosses the bus once. In forward, it would cross for every batch.",
        advice="Make the layer and move it once, before the first batch; forward needs no .to().",
    ),
    parity(
        reference,
        advice="gain * (x - mean) / std, with the values that were passed.",
    ),
    Check(
        "learning",
        lambda machine: "The gain can be learned through the results",
        cut_off,
        needs=("structure",),
        why="The optimizer changes the gain by its gradient, which comes back through the results.",
        advice="Use neither detach() nor no_grad(): training needs the graph from the gain to the result.",
    ),
]
