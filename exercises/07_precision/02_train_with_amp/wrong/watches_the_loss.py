# fails: syncs
# Reads the loss in each step to log it: the host waits, and the device idles.
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
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    scaler = torch.amp.GradScaler(device_type)
    losses, norms = [], []
    for batch, target in zip(batches, targets, strict=True):
        optimizer.zero_grad()
        with torch.autocast(device_type, dtype=torch.float16):
            loss = weight * nn.functional.mse_loss(model(batch), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm))
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
        print("loss", loss.item())
    return {"losses": torch.stack(losses), "norms": torch.stack(norms), "model": model, "scale": scaler.get_scale()}
