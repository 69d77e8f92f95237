"""Recompiles: one compilation for batches of many sizes."""

import torch
from torch.nn import functional


@torch.compile
def pool(
    batch: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    """The mean over the second dimension of the activations."""
    return functional.gelu(batch * scale + shift).mean(dim=1)


def pool_sentences(
    batches: list[torch.Tensor], scale: torch.Tensor, shift: torch.Tensor
) -> list[torch.Tensor]:
    """Means (rows, k) for each batch (rows, length, k)."""
    # TODO: compile once. So far, `pool` compiles again for new sizes.
    return [pool(batch, scale, shift) for batch in batches]


if __name__ == "__main__":
    if torch.cuda.is_available():
        scale, shift = torch.ones(2, 16, device="cuda").unbind()
        batches = [
            torch.randn(4, length, 16, device="cuda")
            for length in (9, 7, 12)
        ]
        pooled = pool_sentences(batches, scale, shift)
        print([tuple(means.shape) for means in pooled])
    else:
        print("This compiles for a CUDA GPU, and there is none here.")
