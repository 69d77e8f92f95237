"""Move a model: parameters and buffers, all of them."""

import torch
from torch import nn


def move_a_model(
    checkpoint: dict, channels: int, classes: int, device: torch.device
) -> nn.Module:
    """A small image classifier with the checkpoint's values.

    All of its state is on `device`.
    """
    model = nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, classes),
    )
    model.load_state_dict(checkpoint)
    return model.to(device)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, 10),
    )
    model = move_a_model(trained.state_dict(), 3, 10, device)
    for name, tensor in model.state_dict().items():
        print(f"{name:24} {tensor.device}")
