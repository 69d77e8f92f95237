# fails: other_errors
# Catches RuntimeError: a mistake in the model looks like a batch that is too large.
import torch


def fits(step, n):
    torch.cuda.empty_cache()
    try:
        step(n)
    except RuntimeError:
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
