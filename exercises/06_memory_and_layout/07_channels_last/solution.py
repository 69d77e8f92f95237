"""Channels last: images and weights lie in memory pixel by pixel."""

import torch
from torch import nn


def channels_last(
    model: nn.Module, images: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Images (n, c, h, w), their features (n, f, h, w), and vectors.

    Images and features are channels last; vectors are (n, f * h * w).
    """
    model.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
    features = model(images)
    return {
        "images": images,
        "features": features,
        "vectors": features.flatten(start_dim=1),
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, padding=1),
    )
    model.to(device).requires_grad_(False)
    images = torch.randn(2, 3, 8, 6, device=device)
    print("before:", images.stride(), model[0].weight.stride())
    for name, tensor in channels_last(model, images).items():
        shape = tuple(tensor.shape)
        print(f"{name:8} {shape}, strides {tensor.stride()}")
    print("weights:", model[0].weight.stride())
