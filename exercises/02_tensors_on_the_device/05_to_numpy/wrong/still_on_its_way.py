# fails: races
# The array shares the memory that an asynchronous copy is still writing.
import torch


def losses_to_numpy(losses):
    return torch.stack(losses).detach().to("cpu", non_blocking=True).numpy()
