"""A training step that takes memory as a network would, and computes next to nothing."""

from __future__ import annotations

from typing import Any

import torch

MIB = 1 << 20

LAYERS = 4
"""Layers of the network: each takes an equal part of the memory of a sample."""

MOST = (60, 100, 120, 37)
"""The largest batch worth trying, for each case."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """MiB of the weights and KiB of each sample's activations; in the second case not even one sample fits."""
    chance = torch.Generator().manual_seed(seed * 10 + case)

    def some(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=chance))

    sample_kib = (some(2000, 5000), some(600_000, 700_000), some(1500, 4000), some(64, 900))[case]
    return {"most": MOST[case], "weights_mib": 2 * some(6, 12), "sample_kib": sample_kib}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The step. It launches one small kernel before it takes memory, so that tries can be counted."""
    torch.cuda.empty_cache()
    weights = torch.empty(drawn["weights_mib"] * MIB, dtype=torch.uint8, device=device)

    def step(n: int) -> None:
        """A training step with `n` samples, from 1 to `most`."""
        if not 1 <= n <= drawn["most"]:
            raise ValueError(f"step() got {n} samples: try sizes from 1 to {drawn['most']}")
        counted = torch.zeros(1, device=device)
        activations = []
        for _ in range(LAYERS):
            activations.append(torch.empty(n * drawn["sample_kib"] * 256, dtype=torch.uint8, device=device))
        assert len({part.device for part in (weights, counted, *activations)}) == 1

    return {"step": step, "most": drawn["most"]}
