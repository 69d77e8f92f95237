"""Products in float16, the rest in float32: seen in the results, in the trace, and in the values."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpututor.checks import parity, placement, precision, structure, syncs

State = dict[str, torch.Tensor]


def reference(encoder: State, head: State, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both models written out, in the dtype of the inputs."""
    hidden = functional.linear(batch, encoder["0.weight"], encoder["0.bias"])
    hidden = functional.layer_norm(hidden, hidden.shape[1:], encoder["1.weight"], encoder["1.bias"])
    features = functional.linear(functional.gelu(hidden), encoder["3.weight"], encoder["3.bias"])
    weights = torch.exp(features @ head["weight"].T + head["bias"])
    return {
        "features": features,
        "probabilities": weights / weights.sum(dim=1, keepdim=True),
        "energy": (features * features).sum(dim=1) / features.shape[1],
    }


def built(encoder: State, head: State, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """The result's shapes and dtypes."""
    result = reference(encoder, head, batch)
    return {**result, "features": result["features"].half()}


checks = [
    structure(
        built,
        why="A result's dtype says in which precision the last operator ran, and the next operator will run.",
        advice=(
            "Call both models and the softmax under torch.autocast with dtype=torch.float16. After the block, an"
            " operator runs in the type of its inputs: .float() comes before the squares."
        ),
    ),
    placement("device", advice="All inputs are on the device: leave the results there."),
    precision(
        {"aten::addmm": "float16", "aten::native_layer_norm": "float32", "aten::_*softmax|aten::exp": "float32"},
        why="Products gain from half precision; a normalization and a softmax only lose digits.",
        advice=(
            "Leave the models in float32 and let autocast cast: model.half() converts every layer, and without"
            " autocast nothing is cast."
        ),
    ),
    syncs(at_most=0, why="Nothing here needs a value on the host.", advice="Return tensors; do not look into them."),
    parity(
        reference,
        inside=torch.float16,
        why="The square of 300 is 90000, and float16 ends at 65504: it becomes inf.",
        advice="Widen the features with .float() before you square them, not the energy after it.",
    ),
]
