# fails: value
# Never empties the cache: a block of a failed try is split for the next one, and its rest cannot be used.
import torch


def fits(step, n):
    try:
        step(n)
    except torch.cuda.OutOfMemoryError:
        return False
    return True


def largest_batch(step, most):
    fitting, too_large = 0, most + 1
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        if fits(step, middle):
            fitting = middle
        else:
            too_large = middle
    return fitting
