"""Stages of a pipeline: some make the host wait, some warn of other things. The last finds out what an error leaves."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import nn

ENTRY = "find_the_syncs"

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


class StageFailed(Exception):
    """The error of a stage that always fails."""


class Fail(nn.Module):
    """Stage that always fails."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise StageFailed("this stage fails, to see whether the debug mode is restored")


def caller() -> Callable[..., object] | None:
    """The function that runs the stages, from the file that calls them."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and ENTRY not in frame.f_globals:
        frame = frame.f_back
    return None if frame is None else frame.f_globals[ENTRY]


def fail_afterwards(stage: nn.Module) -> None:
    """After the stage, run the caller once more with a stage that fails, and mark the debug mode that is left."""
    forward = stage.forward

    def forward_and_fail(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = forward(x)
        function = caller()
        if function is not None:
            mode = torch.cuda.get_sync_debug_mode()
            torch.cuda.set_sync_debug_mode(0)
            try:
                function({"fail": Fail()}, x)
            except StageFailed:
                pass
            finally:
                torch.cuda.nvtx.mark(f"debug mode after an error: {torch.cuda.get_sync_debug_mode()}")
                torch.cuda.set_sync_debug_mode(mode)
        return result

    stage.forward = forward_and_fail


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
    fail_afterwards(list(stages.values())[-1])
    batch = drawn["batch"].to(device)
    torch.cuda.set_sync_debug_mode(drawn["mode"])
    _before = drawn["mode"]
    return {"stages": stages, "batch": batch}
