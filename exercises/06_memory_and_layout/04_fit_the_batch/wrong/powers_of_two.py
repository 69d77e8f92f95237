# fails: value
# Halves until it fits: a power of two, not the largest batch.
import torch


def largest_batch(step, most):
    n = most
    while n:
        torch.cuda.empty_cache()
        try:
            step(n)
        except torch.cuda.OutOfMemoryError:
            n //= 2
        else:
            return n
    return 0
