# fails: other_errors
# Doubles beyond `most` and takes the ValueError of such a size for a batch that does not fit.
import torch


def fits(step, n):
    torch.cuda.empty_cache()
    try:
        step(n)
    except (torch.cuda.OutOfMemoryError, ValueError):
        return False
    return True


def largest_batch(step, most):
    high = 1
    while fits(step, high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if fits(step, middle):
            low = middle
        else:
            high = middle
    return low
