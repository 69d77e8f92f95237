"""Four moves: to the device and back, to a wider dtype and to a narrower one."""

from __future__ import annotations

from typing import Any

import torch


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return a tensor, its place, its destination, and its dtype there."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    match case:
        case 0:
            images = torch.randint(0, 256, (2, 3, 9, 8), generator=chance, dtype=torch.uint8)
            return {"tensor": images, "place": "cpu", "goal": "device", "dtype": torch.float32}
        case 1:
            readings = torch.randn(7, 5, generator=chance, dtype=torch.float64)
            return {"tensor": readings, "place": "cpu", "goal": "device", "dtype": torch.float32}
        case 2:
            scores = torch.randn(11, 13, generator=chance)
            return {"tensor": scores, "place": "device", "goal": "cpu", "dtype": torch.float16}
        case _:
            hidden = torch.randn(1, 31, generator=chance).to(torch.bfloat16)
            return {"tensor": hidden, "place": "device", "goal": "cpu", "dtype": torch.float32}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put the tensor in its place, and pass its destination as a device."""
    return {
        "tensor": drawn["tensor"].to(device) if drawn["place"] == "device" else drawn["tensor"],
        "device": device if drawn["goal"] == "device" else torch.device("cpu"),
        "dtype": drawn["dtype"],
    }
