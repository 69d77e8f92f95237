# fails: transfers
# Makes the tensor for the losses on the CPU and sends it to the GPU.
import torch
from torch import nn
from torch.nn import functional

Batch = tuple[torch.Tensor, torch.Tensor]


def train(model: nn.Module, batches: list[Batch], learning_rate: float) -> torch.Tensor:
    """Train the model in place with a fused AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.05, fused=True)
    losses = torch.zeros(len(batches)).to(next(model.parameters()).device)
    for step, (inputs, targets) in enumerate(batches):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses[step] = loss.detach()
    return losses
