"""No inputs: the function asks the machine, whose GPUs have a little memory in use."""

from __future__ import annotations

from typing import Any

import torch

IN_USE_BYTES = 16 << 20
in_use: list[torch.Tensor] = []


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return no arguments: only the machine differs."""
    return {}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Use some memory of each GPU, so that the free memory is less than the total."""
    gpus = range(torch.cuda.device_count())
    in_use[:] = [torch.empty(IN_USE_BYTES, dtype=torch.uint8, device=f"cuda:{index}") for index in gpus]
    return {}
