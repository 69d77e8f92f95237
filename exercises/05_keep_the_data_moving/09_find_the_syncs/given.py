"""Stages of a pipeline: some make the host wait, some warn of other things."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

PLANS = (
    ("scale", "clean", "check", "log"),
    ("clean", "shift", "check"),
    ("scale", "shift"),
    ("log", "check", "clean", "each", "shift"),
)
"""The stages of each case, in order."""
SHAPES = ((9, 4), (14, 3), (5, 6), (11, 2))
MODES = (0, 1, 0, 1)
"""The debug mode before each case: off, or warn."""

_before = 0
"""The debug mode that the last case began with."""


class Scale(nn.Module):
    """No wait, and a warning about something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn("scale is deprecated", stacklevel=1)
        return x * 2


class Shift(nn.Module):
    """No wait."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)


class Clean(nn.Module):
    """Keeps the rows that begin with a positive number: one wait."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x[:, 0] > 0]


class Check(nn.Module):
    """Stage that waits once for each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for row in x:
            if row.abs().max() > 4:
                warnings.warn("a large row", stacklevel=1)
        return x


class Each(nn.Module):
    """Stage that waits once for each row and column, in two lines."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        largest = max((row.max().item() for row in x), default=1.0)
        smallest = min(column.min().item() for column in torch.cat([x, x[:1] * 0]).T) if len(x) else 0.0
        return (x - smallest) / (largest - smallest + 1)


class Log(nn.Module):
    """Three waits, and a warning about something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for figure in (x.mean(), x.std(), x.abs().max()):
            float(figure)
        warnings.warn("no log file", stacklevel=1)
        return x


STAGES = {"scale": Scale, "shift": Shift, "clean": Clean, "check": Check, "each": Each, "log": Log}


def draw(seed: int, case: int) -> dict[str, Any]:
    """A batch of which at least one row begins with a positive number, and one with a negative number."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    batch = torch.randn(*SHAPES[case], generator=chance)
    batch[0, 0], batch[-1, 0] = batch[0, 0].abs() + 0.1, -batch[-1, 0].abs() - 0.1
    return {"plan": list(PLANS[case]), "batch": batch, "mode": MODES[case]}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The stages, and the batch on the device. The first stage notes if the call before left another debug mode."""
    global _before
    left = torch.cuda.get_sync_debug_mode() if device.type == "cuda" else _before
    torch.cuda.set_sync_debug_mode(0)
    stages = {name: STAGES[name]() for name in drawn["plan"]}
    next(iter(stages.values())).register_buffer("modes", torch.tensor([_before, left]))
    batch = drawn["batch"].to(device)
    torch.cuda.set_sync_debug_mode(drawn["mode"])
    _before = drawn["mode"]
    return {"stages": stages, "batch": batch}
