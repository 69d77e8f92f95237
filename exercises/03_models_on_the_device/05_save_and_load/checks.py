"""The model on its device with the checkpoint's values, and a file that opens on any machine."""

from __future__ import annotations

import torch
from torch import nn

from gpututor.checks import Wanted, files, parity, placement, structure, unmodified


def reference(state: dict[str, torch.Tensor]) -> nn.Module:
    """The network with the checkpoint's state, on the CPU."""
    hidden, channels, _, _ = state["0.weight"].shape
    model = nn.Sequential(
        nn.Conv2d(channels, hidden, kernel_size=3),
        nn.BatchNorm2d(hidden),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(hidden, len(state["4.bias"])),
    )
    model.load_state_dict(state)
    return model


def as_saved(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The content that the file must have: the checkpoint's names and values."""
    return state


checks = [
    structure(
        reference,
        advice="Load the state into the model that you were given, and return that model.",
    ),
    placement(
        outputs="device",
        why="Loading does not move a model: load_state_dict copies values to where the model is.",
        advice="return model.to(device).",
    ),
    unmodified(may_change=("model",)),
    parity(
        reference,
        why="A model without its checkpoint has random weights.",
        advice="model.load_state_dict(state) with the state that torch.load returned.",
    ),
    files(
        {"portable.pt": Wanted("torch", like=as_saved, devices="cpu")},
        why="A file that remembers a GPU opens only on a machine with that GPU, or with map_location.",
        advice="Load the checkpoint, then save a state dict with all tensors on the CPU: torch.save(state, name).",
    ),
]
