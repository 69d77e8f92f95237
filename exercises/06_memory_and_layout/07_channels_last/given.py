"""A small convolutional network and images: some come channels last already."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = ((2, 3, 8, 6, False), (3, 4, 5, 7, True), (1, 5, 9, 4, False), (4, 2, 6, 6, True))
"""Images, channels, height, width, and whether they come channels last, for each case."""
FEATURES = 6


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return the network's state, the images, and True if they are channels last."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, channels, height, width, is_last = SIZES[case]
    state = {
        "0.weight": torch.randn(4, channels, 3, 3, generator=chance) / 4,
        "0.bias": torch.randn(4, generator=chance),
        "2.weight": torch.randn(FEATURES, 4, 3, 3, generator=chance) / 4,
        "2.bias": torch.randn(FEATURES, generator=chance),
    }
    return {"state": state, "images": torch.randn(count, channels, height, width, generator=chance), "last": is_last}


def seen(convolution: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Store shape and strides of the model's input, but not its values."""
    convolution.seen = torch.empty_strided(inputs[0].shape, inputs[0].stride())


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the network in the default format, and the images, both on the device."""
    channels = drawn["images"].shape[1]
    torch.backends.cudnn.allow_tf32 = False  # values are compared in float32, on newer GPUs too
    model = nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, FEATURES, 3, padding=1))
    model.load_state_dict(drawn["state"])
    model[0].register_buffer("seen", torch.empty(0), persistent=False)
    model[0].register_forward_pre_hook(seen)
    images = drawn["images"].to(device)
    if drawn["last"]:
        images = images.contiguous(memory_format=torch.channels_last)
    return {"model": model.to(device).requires_grad_(False), "images": images}
