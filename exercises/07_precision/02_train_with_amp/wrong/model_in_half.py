# fails: structure
# Converts the model to float16: the updates are rounded away, and autocast has nothing to do.
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
    device_type = batches.device.type
    model = model.half()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    losses, norms = [], []
    for batch, target in zip(batches, targets, strict=True):
        optimizer.zero_grad()
        with torch.autocast(device_type, dtype=torch.float16):
            loss = weight * nn.functional.mse_loss(model(batch), target)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm))
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), "norms": torch.stack(norms), "model": model, "scale": 1.0}
