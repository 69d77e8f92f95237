# fails: launches
# Has a tensor on the CPU in the graph, which is therefore not recorded.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    offset = torch.zeros(())
    compiled = torch.compile(lambda batch: model(batch) + offset, mode="reduce-overhead")
    # The next replay overwrites the output, so each is copied.
    return torch.stack([compiled(batch).clone() for batch in batches])
