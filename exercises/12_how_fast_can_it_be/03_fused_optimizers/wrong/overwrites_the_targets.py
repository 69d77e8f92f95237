# fails: unmodified
# Writes the differences into the targets, to save memory.
import torch
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]


def train(model: nn.Module, batches: list[Batch], learning_rate: float) -> torch.Tensor:
    """Train the model in place with a fused AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.05, fused=True)
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = targets.sub_(model(inputs)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)
