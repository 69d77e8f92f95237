"""Train with AMP: autocast, a gradient scaler, and clipping."""

from typing import Any

import torch
from torch import nn


def train(
    model: nn.Module,
    batches: torch.Tensor,
    targets: torch.Tensor,
    weight: float,
    learning_rate: float,
    max_norm: float,
) -> dict[str, Any]:
    """Train on batches (steps, n, features), targets (steps, n, 1)."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    losses, norms = [], []
    for batch, target in zip(batches, targets, strict=True):
        optimizer.zero_grad()
        # TODO: half precision for the forward pass; scale the gradients.
        loss = weight * nn.functional.mse_loss(model(batch), target)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        norms.append(norm)
        optimizer.step()
        losses.append(loss.detach())
    return {
        "losses": torch.stack(losses),
        "norms": torch.stack(norms),
        "model": model,
        "scale": 1.0,
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    model.to(device)
    batches = torch.randn(5, 32, 8, device=device)
    targets = batches.mean(dim=2, keepdim=True)
    settings = {"weight": 1.0, "learning_rate": 0.1, "max_norm": 1.0}
    trained = train(model, batches, targets, **settings)
    print("losses", trained["losses"].tolist())
    print("norms ", trained["norms"].tolist())
    print("scale ", trained["scale"])
