"""Strides of results and weights, the same images if they are channels last already, and unchanged values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from gpututor.checks import Check, Finding, Machine, Run, identity, parity, placement, structure, syncs, unmodified


def reference(state: dict[str, torch.Tensor], images: torch.Tensor, last: bool) -> dict[str, torch.Tensor]:
    """The network by its formulas; a layout changes no value."""
    hidden = F.conv2d(images, state["0.weight"], state["0.bias"], padding=1).clamp(min=0)
    features = F.conv2d(hidden, state["2.weight"], state["2.bias"], padding=1)
    return {"images": images, "features": features, "vectors": features.reshape(len(images), -1)}


def already_last(drawn: dict[str, Any], machine: Machine) -> dict[str, str]:
    return {"images": "images"} if drawn["last"] else {}


def strides_of_weights(run: Run) -> Finding | None:
    """Find a weight that is not channels last after the call."""
    return plane_by_plane(run, lambda name: name.endswith("weight"))


def strides_of_inputs(run: Run) -> Finding | None:
    """Find an input of the model that is not channels last; a hook of `given.py` keeps its shape and strides."""
    return plane_by_plane(run, lambda name: name.endswith("seen"))


def plane_by_plane(run: Run, wanted: Callable[[str], bool]) -> Finding | None:
    """Find the first wanted tensor of the model that is not channels last."""
    for call in run.calls:
        for name, fact in call.arguments.items():
            if name.startswith("model.") and wanted(name) and len(fact.shape) == 4:
                _, channels, height, width = fact.shape
                strides = (channels * height * width, 1, width * channels, channels)
                if fact.strides != strides:
                    what = "the images that go into the model" if name.endswith("seen") else name
                    return Finding(
                        expected=f"{what} of shape {fact.shape} channels_last in memory: strides {strides}",
                        got=f"strides {fact.strides}{run.which(call)}",
                        line=run.line_of(call),
                    )
    return None


checks = [
    structure(
        reference,
        memory_format="channels_last",
        why="A tensor in the other format is copied at the next convolution, in each layer and each step.",
        advice="x.to(memory_format=torch.channels_last) returns the tensor in that format; keep what it returns. The "
        "shape stays (n, c, h, w).",
    ),
    placement(),
    Check(
        "weights",
        lambda machine: "The weights of the convolutions are channels last",
        strides_of_weights,
        ("structure",),
        "Convolutions are fast in this format if weights and images both have it.",
        "model.to(memory_format=torch.channels_last) does it in place, for all weights of four dimensions.",
    ),
    Check(
        "inputs",
        lambda machine: "The images go into the model channels last",
        strides_of_inputs,
        ("structure",),
        "A convolution whose images and weights differ in format makes a copy first, which no line of yours shows.",
        "Convert the images before the model is called, not only what comes out of it.",
    ),
    identity(
        same=already_last,
        why="Images that come in the right format need no copy.",
        advice="x.to(memory_format=...) and x.contiguous(memory_format=...) return x itself then; clone always copies.",
    ),
    syncs(
        at_most=0,
        why="The host knows the layout: you need not wait.",
        advice="Look at shape, stride() and is_contiguous(memory_format=...): they need no values.",
    ),
    unmodified(may_change=("model.0.seen",)),
    parity(
        reference,
        why="A memory format changes where values lie, never which index they have.",
        advice="Flatten the features as they are, from dimension 1 on: indices count, not the order in memory.",
    ),
]
