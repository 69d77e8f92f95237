"""Conv net: any image size, on the device."""

import torch
from torch import nn


def conv_net(
    weights: dict,
    images: torch.Tensor,
    classes: int,
    device: torch.device,
) -> torch.Tensor:
    """Scores (n, classes) of a trained network, float32, on `device`.

    weights: its state dict, on the CPU.
    images (n, channels, height, width), float32, on the CPU; their sides
    have 8 pixels or more.
    """
    # TODO: nine layers, the weights, the device, evaluation, no graph.
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(images[0].numel(), classes)
    )
    return model(images)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(576, 10),
    )
    images = torch.rand(5, 3, 28, 28)
    scores = conv_net(trained.state_dict(), images, 10, device)
    print(tuple(scores.shape), scores.device)
