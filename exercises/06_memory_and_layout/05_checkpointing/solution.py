"""Checkpointing: keep the inputs of blocks, compute the rest again."""

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def train_blocks(
    blocks: nn.ModuleList, rows: torch.Tensor, checkpointed: bool
) -> dict[str, Any]:
    """Loss and gradients of the blocks on rows (n, d), and the peak.

    "peak_bytes" is the peak memory, minus what was held before.
    """
    blocks.zero_grad()
    before = torch.cuda.memory_allocated(rows.device)
    torch.cuda.reset_peak_memory_stats(rows.device)
    hidden = rows
    for block in blocks:
        if checkpointed:
            hidden = checkpoint(block, hidden, use_reentrant=False)
        else:
            hidden = block(hidden)
    loss = hidden.square().mean()
    loss.backward()
    gradients = {
        name: parameter.grad
        for name, parameter in blocks.named_parameters()
    }
    peak = torch.cuda.max_memory_allocated(rows.device)
    return {
        "loss": loss.detach(),
        "gradients": gradients,
        "peak_bytes": peak - before,
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        layers = [
            nn.Sequential(
                nn.Linear(64, 256), nn.Softplus(), nn.Linear(256, 64)
            )
            for _ in range(6)
        ]
        blocks = nn.ModuleList(layers).to("cuda")
        rows = torch.randn(1024, 64, device="cuda")
        for checkpointed in (False, True):
            blocks.zero_grad()
            step = train_blocks(blocks, rows, checkpointed)
            peak = step["peak_bytes"] / 2**20
            print(f"checkpointed {checkpointed}: peak {peak:.1f} MiB")
    else:
        print("There is no GPU here, so there is no peak to measure.")
