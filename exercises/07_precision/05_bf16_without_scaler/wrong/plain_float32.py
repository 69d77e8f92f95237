# fails: precision
# Trains in float32.
import torch
from torch import nn
from torch.nn import functional


def train(
    model: nn.Module,
    batches: torch.Tensor,
    labels: torch.Tensor,
    optimizer: torch.optim.Optimizer,
) -> torch.Tensor:
    """Take one step for each batch; the losses (steps,), float32."""
    losses = []
    for batch, wanted in zip(batches, labels, strict=True):
        optimizer.zero_grad()
        scores = model(batch)
        loss = functional.cross_entropy(scores.float(), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)
