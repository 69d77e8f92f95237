# fails: syncs
# Waits for each replay.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    compiled = torch.compile(model, mode="reduce-overhead")
    outputs = []
    for batch in batches:
        outputs.append(compiled(batch).clone())
        torch.cuda.synchronize()
    return torch.stack(outputs)
