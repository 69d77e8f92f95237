# fails: parity
# Keeps the output of the step before until after the next call.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    compiled = torch.compile(model, mode="reduce-overhead")
    outputs = batches.new_empty(len(batches), batches.shape[1], model[-1].out_features)
    for _ in range(3):
        output = compiled(batches[0])
    for step, batch in enumerate(batches):
        before, output = output, compiled(batch)
        outputs[step - 1] = before
    outputs[-1] = output
    return outputs
