# Compiles a function, by a decorator, and marks where each step begins.
import torch
from torch import nn


def run_steps(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    @torch.compile(mode="reduce-overhead")
    def compiled(batch):
        return model(batch)

    outputs = []
    for batch in batches:
        torch.compiler.cudagraph_mark_step_begin()
        outputs.append(compiled(batch).clone())
    return torch.stack(outputs)
