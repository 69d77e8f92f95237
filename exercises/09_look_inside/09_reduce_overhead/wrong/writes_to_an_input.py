# fails: launches
# Lets the compiled function write to a tensor that it is given: such a graph is not recorded.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    def step(batch, output):
        output.copy_(model(batch))

    compiled = torch.compile(step, mode="reduce-overhead")
    outputs = batches.new_empty(len(batches), batches.shape[1], model[-1].out_features)
    for batch, output in zip(batches, outputs, strict=True):
        compiled(batch, output)
    return outputs
