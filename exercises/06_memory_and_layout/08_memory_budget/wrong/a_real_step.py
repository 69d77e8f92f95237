# fails: nothing_taken
# Runs the step on the GPU and reads the meter: too late if it does not fit.
import copy

import torch
from torch import nn

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters),
}


def memory_budget(model: nn.Sequential, rows: int, optimizer: str) -> dict[str, int]:
    dtype = next(model.parameters()).dtype
    batch = torch.ones(rows, model[0].in_features, dtype=dtype, device="cuda")
    start = torch.cuda.memory_allocated()
    on_gpu = copy.deepcopy(model).to("cuda")
    loaded = torch.cuda.memory_allocated()
    loss = on_gpu(batch).square().mean()
    forward = torch.cuda.memory_allocated()
    loss.backward()
    del loss
    backward = torch.cuda.memory_allocated()  # the activations are free again
    chosen = OPTIMIZERS[optimizer](on_gpu.parameters())
    chosen.step()
    return {
        "weights": loaded - start,
        "activations": forward - loaded,
        "gradients": backward - loaded,
        "optimizer": torch.cuda.memory_allocated() - backward,
    }
