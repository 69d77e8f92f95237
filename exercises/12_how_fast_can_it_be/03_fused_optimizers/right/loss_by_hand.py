# Writes the mean squared error out, in a function that the optimizer calls.
import torch
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]


def train(model: nn.Module, batches: list[Batch], learning_rate: float) -> torch.Tensor:
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.05, fused=True)
    losses = torch.zeros(len(batches), device=batches[0][0].device)
    for step, (inputs, targets) in enumerate(batches):

        def loss_of_step(inputs=inputs, targets=targets) -> torch.Tensor:
            optimizer.zero_grad()
            loss = ((model(inputs) - targets) ** 2).mean()
            loss.backward()
            return loss

        losses[step] = optimizer.step(loss_of_step).detach()
    return losses
