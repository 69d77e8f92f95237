# fails: no_scaler
# Keeps the scaler of the float16 training.
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
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    losses = []
    for batch, wanted in zip(batches, labels, strict=True):
        optimizer.zero_grad()
        with torch.autocast(batch.device.type, dtype=torch.bfloat16):
            scores = model(batch)
        loss = functional.cross_entropy(scores.float(), wanted)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses)
