"""A trained generator's weights, prompts, and the noise that makes argmax a draw from the softmax."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SIZES = (
    {"texts": 4, "prompt": 3, "steps": 6, "vocabulary": 20, "width": 6, "hidden": 12},
    {"texts": 3, "prompt": 2, "steps": 7, "vocabulary": 17, "width": 5, "hidden": 9},
    {"texts": 1, "prompt": 1, "steps": 4, "vocabulary": 23, "width": 8, "hidden": 8},
    {"texts": 6, "prompt": 5, "steps": 1, "vocabulary": 11, "width": 4, "hidden": 7},
)
LEAST_MARGIN = 0.02
"""Least lead of the best token, so that rounding decides nothing, not even in TF32."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights large enough that what was written matters for what follows."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    size = SIZES[case]
    texts, vocabulary, width, hidden = (size[name] for name in ("texts", "vocabulary", "width", "hidden"))
    shapes = {
        "embed.weight": (vocabulary, width),
        "lstm.weight_ih_l0": (4 * hidden, width),
        "lstm.weight_hh_l0": (4 * hidden, hidden),
        "lstm.bias_ih_l0": (4 * hidden,),
        "lstm.bias_hh_l0": (4 * hidden,),
        "head.weight": (vocabulary, hidden),
        "head.bias": (vocabulary,),
    }
    weights = {name: torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    weights["head.weight"] *= 3.0
    while True:
        prompts = torch.randint(vocabulary, (texts, size["prompt"]), generator=chance)
        even = torch.rand(size["steps"], texts, vocabulary, generator=chance).clamp(1e-6, 1 - 1e-6)
        drawn = {"weights": weights, "prompts": prompts, "noise": -(-even.log()).log()}
        if margin(**drawn) > LEAST_MARGIN:
            return drawn


def margin(weights: dict[str, torch.Tensor], prompts: torch.Tensor, noise: torch.Tensor) -> float:
    """Least lead of the best token over the second best."""
    hidden, width = weights["head.weight"].shape[1], weights["embed.weight"].shape[1]
    lstm = nn.LSTM(width, hidden, batch_first=True, device="meta", dtype=torch.float64)
    inside = {name.removeprefix("lstm."): value.double() for name, value in weights.items() if name.startswith("lstm.")}
    lstm.load_state_dict(inside, assign=True)
    state, tokens, least = None, prompts, float("inf")
    with torch.no_grad():
        for step_noise in noise.double():
            outputs, state = lstm(weights["embed.weight"].double()[tokens], state)
            scores = outputs[:, -1] @ weights["head.weight"].double().T + weights["head.bias"].double() + step_noise
            best = scores.topk(2, dim=1)
            least = min(least, float((best.values[:, 0] - best.values[:, 1]).min()))
            tokens = best.indices[:, :1]
    return least


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The noise is on the device already; weights and prompts are on the CPU."""
    return {**drawn, "noise": drawn["noise"].to(device), "device": device}
