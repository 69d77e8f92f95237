"""Texts whose scratch buffers grow with their length, and a cache with a piece that is too small for them."""

from __future__ import annotations

from typing import Any

import torch

MIB = 1 << 20
WORD_BYTES = 2 * MIB
"""Bytes of scratch for each word."""

HELD: list[torch.Tensor] = []
"""A tensor from before: it lies in a large segment whose rest is free."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Texts of different lengths, most of them longer than the one before; the longest one is not the first."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    count, width = ((6, 5), (5, 3), (7, 2))[case]
    lengths = sorted((torch.randperm(14, generator=chance)[:count] + 12).tolist())
    lengths[-1] += 2
    if case == 1:  # not in order at all
        lengths[2], lengths[-1] = lengths[-1], lengths[2]
    texts = [torch.randn(length, width, generator=chance) for length in lengths]
    return {"texts": texts, "held_mib": 2 * int(torch.randint(24, 32, (), generator=chance))}


def embed(text: torch.Tensor) -> torch.Tensor:
    """The largest value of each column plus its mean."""
    scratch = torch.empty(len(text) * WORD_BYTES, dtype=torch.uint8, device=text.device)
    features = text.amax(0) + text.mean(0)
    del scratch
    return features


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The cache: a segment with a tensor and 16 MiB free, too little for any text."""
    HELD.clear()
    texts = [text.to(device) for text in drawn["texts"]]
    torch.cuda.empty_cache()
    held = drawn["held_mib"] * MIB
    before = torch.empty(held + 16 * MIB, dtype=torch.uint8, device=device)
    del before
    HELD.append(torch.empty(held, dtype=torch.uint8, device=device))
    return {"texts": texts, "embed": embed}
