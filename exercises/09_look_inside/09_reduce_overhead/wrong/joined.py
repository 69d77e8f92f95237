# fails: structure
# Joins the rows of all steps.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    compiled = torch.compile(model, mode="reduce-overhead")
    # The next replay overwrites the output, so each is copied.
    return torch.cat([compiled(batch).clone() for batch in batches])
