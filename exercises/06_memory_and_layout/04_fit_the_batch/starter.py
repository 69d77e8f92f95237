"""Fit the batch: find the largest batch that fits, and survive running out of memory on the way."""

from collections.abc import Callable

import torch


def largest_batch(step: Callable[[int], object], most: int) -> int:
    """The largest batch from 1 to `most` for which `step` does not run out of memory; 0 if there is none."""
    # TODO: this stops with an error at the first batch that is too large.
    n = 0
    while n < most:
        step(n + 1)
        n += 1
    return n


if __name__ == "__main__":

    def some_step(n: int) -> None:
        """Takes 64 MiB for each sample; on a machine without a GPU it pretends to have 1 GiB."""
        if torch.cuda.is_available():
            torch.empty(n << 26, dtype=torch.uint8, device="cuda")
        elif n > 16:
            raise torch.cuda.OutOfMemoryError(f"{n * 64} MiB are too much")

    print(f"The largest batch that fits is {largest_batch(some_step, 1000)}.")
