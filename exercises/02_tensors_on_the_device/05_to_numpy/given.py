"""Losses of 24 training steps, of 7, and of 1."""

from __future__ import annotations

from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    """Losses that fall, with noise, so that no two are equal."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    steps = [24, 7, 1][case]
    return {"losses": 3.0 / (1.0 + torch.arange(steps)) + 0.3 * torch.rand(steps, generator=chance)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """A tensor for each loss, on the device, with its autograd graph."""
    weight = torch.ones((), device=device, requires_grad=True)
    on_device = drawn["losses"].to(weight.device)
    return {"losses": [on_device[step] * weight for step in range(len(on_device))]}
