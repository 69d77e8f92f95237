"""Channels last: lay images and weights out pixel by pixel, without changing shapes or values."""

import torch
from torch import nn


def channels_last(model: nn.Module, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """The images (n, c, h, w) and features (n, f, h, w), both channels last, and vectors (n, f * h * w)."""
    # TODO: nothing is channels last yet.
    features = model(images)
    return {"images": images, "features": features, "vectors": features.flatten(start_dim=1)}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1))
    model.to(device).requires_grad_(False)
    images = torch.randn(2, 3, 8, 6, device=device)
    print("before:", images.stride(), model[0].weight.stride())
    for name, tensor in channels_last(model, images).items():
        print(f"{name:8} {tuple(tensor.shape)}, strides {tensor.stride()}")
    print("weights:", model[0].weight.stride())
