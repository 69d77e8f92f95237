# fails: tries
# Tries each size from 1 up.
import torch


def largest_batch(step, most):
    for n in range(1, most + 1):
        torch.cuda.empty_cache()
        try:
            step(n)
        except torch.cuda.OutOfMemoryError:
            return n - 1
    return most
