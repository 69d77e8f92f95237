# fails: memory
# Allocates a reserve for the later training, and never frees it.
import torch

RESERVE = []


def largest_batch(step, most):
    RESERVE.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
    fitting, too_large = 0, most + 1
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        torch.cuda.empty_cache()
        try:
            step(middle)
        except torch.cuda.OutOfMemoryError:
            too_large = middle
        else:
            fitting = middle
    return fitting
