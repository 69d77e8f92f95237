"""Queries, keys and values, with padding, with a causal mask, and with neither."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    {"texts": 2, "heads": 2, "queries": 256, "keys": 256, "size": 16, "masks": "none"},
    {"texts": 3, "heads": 2, "queries": 192, "keys": 288, "size": 8, "masks": "lengths"},
    {"texts": 1, "heads": 4, "queries": 320, "keys": 320, "size": 8, "masks": "causal"},
    {"texts": 2, "heads": 2, "queries": 256, "keys": 256, "size": 24, "masks": "lengths"},
)


def draw(seed: int, case: int) -> dict[str, Any]:
    """Scores that differ much, so that some keys matter more than others, and padding of large values."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    given = SIZES[case]
    texts, heads, queries, keys, size = (given[name] for name in ("texts", "heads", "queries", "keys", "size"))
    query = 2 * torch.randn(texts, heads, queries, size, generator=chance)
    key = torch.randn(texts, heads, keys, size, generator=chance)
    value = torch.randn(texts, heads, keys, size, generator=chance) + 0.5
    lengths = None
    if given["masks"] == "lengths":
        lengths = torch.randint(1, keys, (texts,), generator=chance)
        for text, length in enumerate(lengths.tolist()):
            value[text, :, length:] += 3
    return {"query": query, "key": key, "value": value, "lengths": lengths, "causal": given["masks"] == "causal"}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put all tensors on the device."""
    names = ("query", "key", "value", "lengths")
    return {**drawn, **{name: drawn[name].to(device) for name in names if drawn[name] is not None}}
