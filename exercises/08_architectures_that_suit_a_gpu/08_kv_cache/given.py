"""A small language model of one attention layer, prompts, and how many tokens to write."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

LONGEST = 32
"""Positions that the model has a vector for."""
SIZES = (
    {"texts": 8, "prompt": 5, "steps": 12, "width": 32, "heads": 2, "vocabulary": 61},
    {"texts": 6, "prompt": 9, "steps": 10, "width": 48, "heads": 4, "vocabulary": 67},
    {"texts": 16, "prompt": 1, "steps": 14, "width": 24, "heads": 3, "vocabulary": 71},
)
"""The vocabulary is not a multiple of another size, so that checks know the head's product by its FLOPs."""


class TextModel(nn.Module):
    """Layer with embeddings, attention, and a head that scores the next token."""

    def __init__(self, vocabulary: int, width: int, heads: int) -> None:
        """Make the parts; `width` is a multiple of `heads`."""
        super().__init__()
        self.heads, self.size, self.longest = heads, width // heads, LONGEST
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(LONGEST, width)
        self.inside = nn.Linear(width, 3 * width)
        self.outside = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def embed(self, tokens: torch.Tensor, first: int) -> torch.Tensor:
        """Return vectors (n, t, width) of tokens (n, t); the first of them is at position `first` of its text."""
        return self.tokens(tokens) + self.places.weight[first : first + tokens.shape[1]]

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return query, key and value of the vectors, each (n, heads, t, size)."""
        parts = self.inside(x).chunk(3, dim=-1)
        return tuple(part.unflatten(-1, (self.heads, self.size)).transpose(1, 2) for part in parts)

    def score(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Return scores (n, t, vocabulary) of the token after each vector; `seen` is the attention's result."""
        return self.head(x + self.outside(seen.transpose(1, 2).flatten(2)))


def draw(seed: int, case: int) -> dict[str, Any]:
    """Weights for which the attention's result decides between tokens."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    given = SIZES[case]
    width, vocabulary = given["width"], given["vocabulary"]
    shapes = {
        "tokens.weight": (vocabulary, width),
        "places.weight": (LONGEST, width),
        "inside.weight": (3 * width, width),
        "inside.bias": (3 * width,),
        "outside.weight": (width, width),
        "outside.bias": (width,),
        "head.weight": (vocabulary, width),
        "head.bias": (vocabulary,),
    }
    weights = {name: torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    for name, share in (("inside.weight", 1.0), ("outside.weight", 3.0), ("head.weight", 1.0)):
        weights[name] *= share / width**0.5
    prompts = torch.randint(vocabulary, (given["texts"], given["prompt"]), generator=chance)
    return {"weights": weights, "heads": given["heads"], "prompts": prompts, "steps": given["steps"]}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put model and prompts on the device; the weights need no gradients."""
    vocabulary, width = drawn["weights"]["head.weight"].shape
    model = TextModel(vocabulary, width, drawn["heads"])
    model.load_state_dict(drawn["weights"])
    model = model.to(device).eval().requires_grad_(False)
    return {"model": model, "prompts": drawn["prompts"].to(device), "steps": drawn["steps"]}
