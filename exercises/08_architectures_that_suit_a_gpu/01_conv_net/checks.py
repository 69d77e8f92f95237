"""The right scores, computed where they should be, without a graph behind them."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpututor.checks import launches, parity, placement, structure, syncs, transfers
from gpututor.checks.model import Check, Finding, Run
from gpututor.protocol.values import ObservedTensor


def reference(weights: dict[str, torch.Tensor], images: torch.Tensor, classes: int) -> torch.Tensor:
    """The nine layers as functions, in the dtype of the inputs."""
    x = functional.conv2d(images, weights["0.weight"], weights["0.bias"], padding=1)
    x = functional.batch_norm(
        x, weights["1.running_mean"], weights["1.running_var"], weights["1.weight"], weights["1.bias"]
    )
    x = functional.max_pool2d(x.relu(), 2)
    x = functional.conv2d(x, weights["4.weight"], weights["4.bias"])
    x = functional.max_pool2d(x.relu(), 2)
    return functional.linear(x.flatten(1), weights["8.weight"], weights["8.bias"])


def graph_found(run: Run) -> Finding | None:
    for call in run.calls:
        if isinstance(call.output, ObservedTensor) and call.output.fact.requires_grad:
            return Finding(
                expected="scores without an autograd graph",
                got=f"scores that need gradients{run.which(call)}",
                line=run.line_of(call),
            )
    return None


checks = [
    structure(
        reference,
        advice="One row of scores for each image: Flatten() keeps the first dimension, and Linear comes last.",
    ),
    placement(
        outputs="device",
        why="The next step, a softmax or an argmax, runs where the scores are.",
        advice="Move the model and the images to `device`; the scores are then computed there.",
    ),
    syncs(
        at_most=0,
        advice="Sizes come from images.shape, which the host knows. No value has to be read from the device.",
    ),
    transfers(
        to_device=(1, 13),
        to_host=0,
        why="Eleven tensors of the model and one of images have to cross. No other copy is needed.",
        advice="Load the weights, then move the model (the other order copies twice); move the images once, whole.",
    ),
    launches(
        by_name={"aten::*conv*": (2, 4)},
        why="Two convolutions compute all images at once. If none runs on the device, the CPU did the work.",
        advice="Call the model once, when model and images are on the device, with the whole batch.",
        on=lambda machine: machine.virtual and machine.device != "cpu",
    ),
    Check(
        "no_graph",
        lambda _: "The scores carry no autograd graph",
        graph_found,
        ("structure",),
        "A graph keeps the activations of every layer in the device's memory for a backward pass that never comes.",
        "Call the model in a mode in which autograd records nothing.",
    ),
    parity(
        reference,
        advice="Call load_state_dict(weights), and model.eval() so that BatchNorm2d uses the statistics it learned.",
    ),
]
