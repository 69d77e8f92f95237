# fails: other_errors
# Suppresses any error of a step, also a mistake in it.
import contextlib
import torch


def fits(step, n):
    torch.cuda.empty_cache()
    done = False
    with contextlib.suppress(Exception):
        step(n)
        done = True
    return done


def largest_batch(step, most):
    low, high = 0, most + 1
    while high - low > 1:
        mid = (low + high) // 2
        if fits(step, mid):
            low = mid
        else:
            high = mid
    return low
