"""Fragmentation: a cache that the next step can use."""

from collections.abc import Callable

import torch


def fragmentation(
    texts: list[torch.Tensor],
    embed: Callable[[torch.Tensor], torch.Tensor],
) -> dict:
    """The features of all texts, (n, d), in the order of the texts.

    "free" and "largest" are bytes of the cache after the loop.
    """
    # TODO: Often a text is longer than the one before, and needs a new
    # segment. The figures of the cache are missing, too.
    rows = [embed(text) for text in texts]
    return {"features": torch.stack(rows), "free": 0, "largest": 0}


if __name__ == "__main__":

    def some_embed(text: torch.Tensor) -> torch.Tensor:
        """The sum, with 1 MiB of scratch for each word."""
        torch.empty(len(text) << 20, dtype=torch.uint8, device="cuda")
        return text.sum(0)

    if torch.cuda.is_available():
        texts = [torch.ones(n, 3, device="cuda") for n in (12, 16, 20)]
        print(fragmentation(texts, some_embed))
        for segment in torch.cuda.memory_snapshot():
            total = segment["total_size"] >> 20
            used = segment["allocated_size"] / 2**20
            print(f"a segment of {total} MiB: {used:.1f} MiB used")
    else:
        print("There is no GPU here, so there is no cache to read.")
