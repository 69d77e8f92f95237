"""Attention's values with each mask, and no table of scores in memory."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import launches, memory, parity, placement, structure, syncs, transfers

SPARE = 64 * 1024
"""Bytes for a mask of keys in some types, and for the allocator's rounding."""


def reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor | None, causal: bool
) -> torch.Tensor:
    """Text by text, from the real keys alone."""
    results = []
    for text, (asked, offered, given) in enumerate(zip(query, key, value, strict=True)):
        real = int(lengths[text]) if lengths is not None else offered.shape[1]
        scores = torch.einsum("hmk,hnk->hmn", asked, offered[:, :real]) / asked.shape[-1] ** 0.5
        if causal:
            places = torch.arange(real)
            scores[:, places.unsqueeze(0) > places.unsqueeze(1)] = -torch.inf
        results.append(torch.einsum("hmn,hnk->hmk", scores.softmax(dim=-1), given[:, :real]))
    return torch.stack(results)


def bytes_needed(drawn: dict[str, Any], machine: Any) -> int:
    """Return the bytes of the result and of a mask of keys. A table of scores is at least ten times as large."""
    return int(drawn["query"].nbytes) + SPARE


checks = [
    structure(
        reference,
        advice="One result for each query: (texts, heads, m, size).",
    ),
    placement(
        "device",
        why="The next layer needs the result on the GPU.",
        advice="All inputs are on the GPU. Make the mask there as well: device=query.device.",
    ),
    parity(
        reference,
        why="A position that sees padding, or its own future, learns what it must not know.",
        advice="In a boolean attn_mask of the fused operator, True means: this key is seen. It divides by sqrt(size).",
    ),
    syncs(
        at_most=0,
        why="In every layer, the GPU would sit idle until the host knows the lengths.",
        advice="A comparison of two tensors on the GPU is a mask. The host need not read the lengths.",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="All inputs are on the GPU already. A copy to the host also makes it wait.",
        advice="Make the mask from `lengths` and torch.arange(n, device=query.device), without reading either.",
    ),
    memory(
        peak=bytes_needed,
        why="The table of scores, or a mask of that size, grows with the square of the length.",
        advice="Let the fused operator do all of it, and give it a mask of keys that broadcasts over the queries.",
    ),
    launches(
        (1, 10),
        why="The fused operator computes all texts, heads and queries in one kernel.",
        advice="Do not loop over texts, heads or blocks of queries.",
    ),
]
