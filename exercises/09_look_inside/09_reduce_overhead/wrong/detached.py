# fails: runs
# Detaches each output: the detached tensor shares the memory that the next replay overwrites.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    compiled = torch.compile(model, mode="reduce-overhead")
    # The next replay overwrites the output, so each is copied.
    return torch.stack([compiled(batch).detach() for batch in batches])
