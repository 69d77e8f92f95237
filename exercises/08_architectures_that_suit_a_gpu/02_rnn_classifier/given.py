"""A trained classifier's weights, and texts of different lengths, padded with zeros."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    {"texts": 8, "steps": 9, "vocabulary": 40, "width": 12, "hidden": 16, "classes": 5},
    {"texts": 5, "steps": 13, "vocabulary": 23, "width": 7, "hidden": 11, "classes": 3},
    {"texts": 1, "steps": 6, "vocabulary": 17, "width": 8, "hidden": 9, "classes": 4},
    {"texts": 9, "steps": 9, "vocabulary": 30, "width": 6, "hidden": 8, "classes": 2},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights that keep the outputs away from 1 and -1; at least one text is shorter than the batch."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    size = SIZES[case]
    texts, steps, vocabulary = size["texts"], size["steps"], size["vocabulary"]
    width, hidden, classes = size["width"], size["hidden"], size["classes"]
    shapes = {
        "embed.weight": (vocabulary, width),
        "rnn.weight_ih_l0": (hidden, width),
        "rnn.weight_hh_l0": (hidden, hidden),
        "rnn.bias_ih_l0": (hidden,),
        "rnn.bias_hh_l0": (hidden,),
        "head.weight": (classes, hidden),
        "head.bias": (classes,),
    }
    weights = {name: 0.4 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    lengths = torch.randint(1, steps + 1, (texts,), generator=chance)
    if texts > 1:
        lengths[int(torch.randint(texts, (), generator=chance))] = steps
    shorter = int(lengths.argmin())
    lengths[shorter] = min(int(lengths[shorter]), steps - 2)
    tokens = torch.randint(1, vocabulary, (texts, steps), generator=chance)
    tokens *= torch.arange(steps) < lengths.unsqueeze(1)
    return {"weights": weights, "tokens": tokens, "lengths": lengths}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Everything is on the CPU, as a file and a tokenizer give it."""
    return {**drawn, "device": device}
