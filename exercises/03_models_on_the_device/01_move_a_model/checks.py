"""The whole state of the model: its names, its place, its values."""

from __future__ import annotations

import re

import torch
from torch import nn

from gpututor.checks import Check, Finding, Run, parity, placement, structure


def reference(checkpoint: dict[str, torch.Tensor], channels: int, classes: int) -> nn.Module:
    """The model of the task with the checkpoint loaded, on the CPU."""
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
    return model


def settings(text: str) -> str:
    """Return a layer's settings in one form: `1` for `(1, 1)` and for `same`; working in place changes no value."""
    text = text.replace("inplace=True", "").replace("padding=same", "padding=1")
    return re.sub(r"\((\d+), \1\)", r"\1", text)


def find_other_layer(run: Run) -> Finding | None:
    """Find a layer whose settings, such as its padding, differ from the task's. The state does not show them."""
    for call in run.calls:
        layers = dict(reference(**call.drawn).named_children())
        for name, kind, text in call.output.layers:
            wanted = layers[name].extra_repr()
            if settings(text) != settings(wanted):
                got = f"{kind}({text}){run.which(call)}"
                return Finding(f"layer {name}: {kind}({wanted})", got, run.line_of(call))
    return None


checks = [
    structure(
        reference,
        advice="Build the layers in the order of the task, in one nn.Sequential, and return the model itself.",
    ),
    Check(
        "layers",
        lambda machine: "Its layers have the settings of the task",
        find_other_layer,
        needs=("structure",),
        why="A checkpoint fits many models: it shows the kernels' sizes, but neither padding nor the pool's size.",
        advice="Compare this layer with the task's list, setting by setting.",
        results_only=True,
        kind="structure",
    ),
    placement(
        outputs="device",
        why="A layer whose state is elsewhere raises at the first batch, or computes with stale statistics.",
        advice="model.to(device) moves parameters and buffers of all layers at once.",
    ),
    parity(
        reference,
        why="A model without its checkpoint has random weights.",
        advice="model.load_state_dict(checkpoint) copies the values into the model, wherever the model is.",
    ),
]
