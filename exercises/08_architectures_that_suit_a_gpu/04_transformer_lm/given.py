"""A trained language model's weights, and texts; the first two of a batch begin in the same way."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    {"texts": 3, "steps": 8, "vocabulary": 20, "width": 8, "heads": 2, "hidden": 16},
    {"texts": 2, "steps": 5, "vocabulary": 13, "width": 12, "heads": 4, "hidden": 10},
    {"texts": 1, "steps": 1, "vocabulary": 17, "width": 6, "heads": 2, "hidden": 7},
    {"texts": 4, "steps": 11, "vocabulary": 9, "width": 4, "heads": 2, "hidden": 12},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights like trained ones: of both signs, with norms near one."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    size = SIZES[case]
    texts, steps, vocabulary = size["texts"], size["steps"], size["vocabulary"]
    width, hidden = size["width"], size["hidden"]
    shapes: dict[str, tuple[int, ...]] = {"embed.weight": (vocabulary, width)}
    for layer in ("encoder.layers.0", "encoder.layers.1"):
        shapes |= {
            f"{layer}.self_attn.in_proj_weight": (3 * width, width),
            f"{layer}.self_attn.in_proj_bias": (3 * width,),
            f"{layer}.self_attn.out_proj.weight": (width, width),
            f"{layer}.self_attn.out_proj.bias": (width,),
            f"{layer}.linear1.weight": (hidden, width),
            f"{layer}.linear1.bias": (hidden,),
            f"{layer}.linear2.weight": (width, hidden),
            f"{layer}.linear2.bias": (width,),
            f"{layer}.norm1.weight": (width,),
            f"{layer}.norm1.bias": (width,),
            f"{layer}.norm2.weight": (width,),
            f"{layer}.norm2.bias": (width,),
        }
    shapes |= {"head.weight": (vocabulary, width), "head.bias": (vocabulary,)}
    weights = {name: 0.5 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    for name in weights:
        if ".norm" in name and name.endswith("weight"):
            weights[name] += 1.0
    tokens = torch.randint(vocabulary, (texts, steps), generator=chance)
    if texts > 1:
        tokens[1, : steps // 2] = tokens[0, : steps // 2]
        tokens[1, steps // 2 :] = (tokens[0, steps // 2 :] + 1) % vocabulary
    return {"weights": weights, "tokens": tokens, "heads": size["heads"]}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Everything is on the CPU, as a file and a tokenizer give it."""
    return {**drawn, "device": device}
