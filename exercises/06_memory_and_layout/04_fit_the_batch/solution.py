"""Fit the batch: find the largest that fits, and survive the search."""

from collections.abc import Callable

import torch


def fits(step: Callable[[int], object], n: int) -> bool:
    """Return True if a step with `n` samples fits.

    It starts with an empty cache, as a new process would.
    """
    torch.cuda.empty_cache()  # blocks of other sizes may be in the way
    try:
        step(n)
    except torch.cuda.OutOfMemoryError:
        return False
    return True


def largest_batch(step: Callable[[int], object], most: int) -> int:
    """The largest batch from 1 to `most` that fits; 0 if there is none.

    A batch fits if `step` does not run out of memory with it.
    """
    fitting, too_large = 0, most + 1
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        if fits(step, middle):
            fitting = middle
        else:
            too_large = middle
    return fitting


if __name__ == "__main__":

    def some_step(n: int) -> None:
        """Takes 64 MiB for each sample; without a GPU there is 1 GiB."""
        if torch.cuda.is_available():
            torch.empty(n << 26, dtype=torch.uint8, device="cuda")
        elif n > 16:
            raise torch.cuda.OutOfMemoryError(f"no room for {n * 64} MiB")

    largest = largest_batch(some_step, 1000)
    print(f"The largest batch that fits is {largest}.")
