# fails: launches
# Computes all steps in one call, as if all batches were there from the beginning.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    return torch.compile(model, mode="reduce-overhead")(batches).clone()
