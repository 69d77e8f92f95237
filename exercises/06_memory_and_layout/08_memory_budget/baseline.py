"""The same bytes, read from the meter during a real step on the GPU."""

import copy

import torch
from torch import nn

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters),
}


def reading() -> int:
    """Read the meter. The wait after it marks this moment in the trace for the checks."""
    bytes_now = torch.cuda.memory_allocated()
    torch.cuda.synchronize()
    return bytes_now


def memory_budget(model: nn.Sequential, rows: int, optimizer: str) -> dict[str, int]:
    dtype = next(model.parameters()).dtype
    batch = torch.ones(rows, model[0].in_features, dtype=dtype, device="cuda")
    start = reading()
    on_gpu = copy.deepcopy(model).to("cuda")
    loaded = reading()
    loss = on_gpu(batch).square().mean()
    forward = reading()
    loss.backward()
    del loss
    backward = reading()  # the activations are free again
    chosen = OPTIMIZERS[optimizer](on_gpu.parameters())
    chosen.step()
    return {
        "weights": loaded - start,
        "activations": forward - loaded,
        "gradients": backward - loaded,
        "optimizer": reading() - backward,
    }
