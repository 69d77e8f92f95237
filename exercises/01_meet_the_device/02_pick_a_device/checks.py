"""The best backend that reports itself available in each scenario."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import value

BEST_FIRST = ("cuda", "mps", "xpu")


def expected(drawn: dict[str, Any], machine: Any) -> torch.device:
    """The first available backend, in the order of the task."""
    available = [name for name in BEST_FIRST if name in machine.backends and machine.gpus > 0]
    return torch.device([*available, "cpu"][0])


checks = [
    value(
        expected,
        why="If the device does not exist, the first tensor fails; if you do not choose a GPU, it stays idle.",
        advice="Ask each backend in the order of the task; the answer is its name alone, without a number.",
    ),
]
