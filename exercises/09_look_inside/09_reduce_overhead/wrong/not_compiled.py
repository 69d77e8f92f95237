# fails: one_graph
# Runs the model as it is.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    # The next replay overwrites the output, so each is copied.
    return torch.stack([model(batch) for batch in batches])
