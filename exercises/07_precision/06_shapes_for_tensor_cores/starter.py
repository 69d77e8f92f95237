"""Shapes for tensor cores: sizes that are multiples of 8."""

import torch
from torch.nn import functional


def losses(
    table: torch.Tensor,
    bias: torch.Tensor,
    batches: list[torch.Tensor],
    labels: list[torch.Tensor],
) -> torch.Tensor:
    """The mean cross-entropy of each batch, float32.

    table: (words, features), float16; bias: (words,), float16
    batches: hidden states (n, features); labels: (n,), int64
    """
    # TODO: pad to multiples of 8, without changing the losses.
    means = []
    for batch, wanted in zip(batches, labels, strict=True):
        scores = functional.linear(batch, table, bias)
        means.append(functional.cross_entropy(scores.float(), wanted))
    return torch.stack(means)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    half = {"device": device, "dtype": torch.float16}
    table, bias = torch.randn(1003, 76, **half), torch.zeros(1003, **half)
    batches = [torch.randn(64, 76, **half) for _ in range(2)]
    labels = [torch.randint(1003, (64,), device=device) for _ in range(2)]
    print(losses(table, bias, batches, labels))
