"""Data parallel: one training step on all GPUs, on one, or on none."""

import torch
from torch import nn


def data_parallel(
    model: nn.Module,
    batch: torch.Tensor,
    targets: torch.Tensor,
    device: torch.device,
) -> dict[str, torch.Tensor]:
    """Do a step of SGD on batch (n, d) and targets (n, k).

    Returns the new state dict, with the plain model's names, on `device`.
    """
    model = model.to(device)
    network = model
    if torch.cuda.device_count() > 1:
        network = nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outputs = network(batch.to(device))
    loss = nn.functional.mse_loss(outputs, targets.to(device))
    loss.backward()
    optimizer.step()
    return model.state_dict()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    batch, targets = torch.rand(6, 4), torch.rand(6, 2)
    state = data_parallel(model, batch, targets, device)
    print(f"{torch.cuda.device_count()} GPUs")
    for name, tensor in state.items():
        print(f"{name:10} {tensor.device}")
