# fails: value
# Keeps the last error to show it later, and with it the memory of the failed step.
import torch


def largest_batch(step, most):
    fitting, too_large, last_error = 0, most + 1, None
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        torch.cuda.empty_cache()
        try:
            step(middle)
            fitting = middle
        except torch.cuda.OutOfMemoryError as error:
            too_large, last_error = middle, error
    return fitting
