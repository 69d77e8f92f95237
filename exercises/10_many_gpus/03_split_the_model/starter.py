"""Split the model: half of its layers on each of two GPUs."""

import torch
from torch import nn


def split_the_model(
    model: nn.Sequential,
    cut: int,
    batch: torch.Tensor,
    targets: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Return the gradients of the loss, by the parameters' names.

    Layers before `cut` are on cuda:0, the others on cuda:1.
    batch (n, d) and targets (n, k) are float32, on the CPU.
    """
    # TODO: all of this does not fit on one GPU. Use both.
    model = model.to("cuda:0")
    outputs = model(batch.to("cuda:0"))
    loss = nn.functional.mse_loss(outputs, targets.to("cuda:0"))
    loss.backward()
    return {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


if __name__ == "__main__":
    if torch.cuda.device_count() < 2:
        print("This needs two GPUs: `gpututor run --gpus 2` has them.")
    else:
        model = nn.Sequential(
            nn.Linear(4, 8),
            nn.Tanh(),
            nn.Linear(8, 8),
            nn.Tanh(),
            nn.Linear(8, 2),
        )
        batch, targets = torch.rand(6, 4), torch.rand(6, 2)
        gradients = split_the_model(model, 2, batch, targets)
        for name, gradient in gradients.items():
            print(f"{name:10} {gradient.device}")
