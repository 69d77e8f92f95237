# fails: launches
# Chooses the mode that searches for faster kernels, without CUDA graphs.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
    # The next replay overwrites the output, so each is copied.
    return torch.stack([compiled(batch).clone() for batch in batches])
