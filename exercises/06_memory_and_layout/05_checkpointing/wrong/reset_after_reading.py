# fails: figure
# Resets the meter after reading it: the figure may be a peak of earlier work.
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def train_blocks(blocks: nn.ModuleList, rows: torch.Tensor, checkpointed: bool) -> dict[str, Any]:
    blocks.zero_grad()
    before = torch.cuda.memory_allocated(rows.device)
    hidden = rows
    for block in blocks:
        hidden = checkpoint(block, hidden, use_reentrant=False) if checkpointed else block(hidden)
    loss = hidden.square().mean()
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in blocks.named_parameters()}
    peak = torch.cuda.max_memory_allocated(rows.device)
    torch.cuda.reset_peak_memory_stats(rows.device)
    return {"loss": loss.detach(), "gradients": gradients, "peak_bytes": peak - before}
