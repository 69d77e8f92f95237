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
    channels, height, width = images.shape[1:]
    # Padding keeps the sides; pooling halves them; a 3x3 kernel without
    # padding takes one pixel from each edge.
    rows, columns = ((side // 2 - 2) // 2 for side in (height, width))
    model = nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * rows * columns, classes),
    )
    model.load_state_dict(weights)
    model.to(device).eval()
    with torch.inference_mode():
        return model(images.to(device))


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
