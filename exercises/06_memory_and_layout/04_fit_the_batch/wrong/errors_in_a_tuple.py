# fails: other_errors
# Catches running out of memory, and any other error with it.
import torch


def fits(step, n):
    torch.cuda.empty_cache()
    try:
        step(n)
        return True
    except (torch.cuda.OutOfMemoryError, RuntimeError, ValueError):
        return False


def largest_batch(step, most):
    low, high = 0, most + 1
    while high - low > 1:
        mid = (low + high) // 2
        if fits(step, mid):
            low = mid
        else:
            high = mid
    return low
