"""Encoder and decoder: whole sentences at once, with three masks."""

import torch
from torch import nn
from torch.nn import functional

PAD = 0
"""The token that pads short sentences."""


def token_losses(
    model: nn.Module, sources: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """The loss of each target token but the first, (n, t - 1).

    sources: (n, s), targets: (n, t), both int64 on the CPU, padded
    with PAD; each target begins with a start token.
    """
    device = model.head.weight.device
    sources, targets = sources.to(device), targets.to(device)
    inputs, labels = targets[:, :-1], targets[:, 1:]
    padding = sources == PAD
    future = nn.Transformer.generate_square_subsequent_mask(
        inputs.shape[1], device=device
    )
    x = model.transformer(
        model.embed(sources),
        model.embed(inputs),
        tgt_mask=future,
        tgt_is_causal=True,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    scores = model.head(x).transpose(1, 2)
    return functional.cross_entropy(
        scores, labels, ignore_index=PAD, reduction="none"
    )


class Demo(nn.Module):
    """A model as in the task, with random weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(30, 16)
        self.transformer = nn.Transformer(
            16, 2, 1, 1, 32, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(16, 30)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sources = torch.tensor([[5, 6, 7, 8], [9, 4, PAD, PAD]])
    targets = torch.tensor([[1, 12, 13], [1, 14, PAD]])
    print(token_losses(Demo().to(device), sources, targets))
