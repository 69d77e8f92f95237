# fails: value
# Never tries `most`, as if that size could not fit.
import torch


def largest_batch(step, most):
    fitting, too_large = 0, most
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        torch.cuda.empty_cache()
        try:
            step(middle)
            fitting = middle
        except torch.cuda.OutOfMemoryError:
            too_large = middle
    return fitting
