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
    # TODO: all positions in one pass, and three masks.
    losses = []
    for place in range(1, targets.shape[1]):
        x = model.transformer(
            model.embed(sources), model.embed(targets[:, :place])
        )
        scores = model.head(x[:, -1])
        losses.append(
            functional.cross_entropy(
                scores, targets[:, place], reduction="none"
            )
        )
    return torch.stack(losses, dim=1)


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
