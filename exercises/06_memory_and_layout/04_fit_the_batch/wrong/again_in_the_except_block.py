# fails: value
# Tries the next size inside the except block: the error still holds all that the failed step held.
import torch


def largest_batch(step, most):
    def search(fitting, too_large):
        if too_large - fitting <= 1:
            return fitting
        middle = (fitting + too_large) // 2
        torch.cuda.empty_cache()
        try:
            step(middle)
        except torch.cuda.OutOfMemoryError:
            return search(fitting, middle)
        return search(middle, too_large)

    return search(0, most + 1)
