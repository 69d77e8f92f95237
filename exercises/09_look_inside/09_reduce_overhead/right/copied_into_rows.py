# Copies each output into its row of a tensor for all steps.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    compiled = torch.compile(model, mode="reduce-overhead")
    outputs = batches.new_empty(len(batches), batches.shape[1], model[-1].out_features)
    for batch, output in zip(batches, outputs, strict=True):
        output.copy_(compiled(batch))
    return outputs
