# fails: value
# Returns the smallest batch that does not fit.
import torch


def largest_batch(step, most):
    fitting, too_large = 0, most + 1
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        torch.cuda.empty_cache()
        try:
            step(middle)
            fitting = middle
        except torch.cuda.OutOfMemoryError:
            too_large = middle
    return too_large
