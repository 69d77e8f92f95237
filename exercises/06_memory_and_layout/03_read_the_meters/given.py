"""Pieces of work that keep a little, use much in between, and return something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MIB = 1 << 20

HELD: list[torch.Tensor] = []
"""Tensors on the device during a case: one from before, and those that the works keep."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return sizes in bytes. Even MiB above 10 MiB get their own segment; kept tensors share a segment of 2 MiB."""
    chance = torch.Generator().manual_seed(seed * 10 + case)

    def some(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=chance))

    works = [
        {
            "result": 2 * MIB * some(6, 15),
            "scratch": 2 * MIB * some(*((40, 60), (16, 30), (8, 15))[number]),
            "kept": 0 if case == 1 and number == 0 else 512 * some(1, 400),
        }
        for number in range(1 if case == 2 else 3)
    ]
    return {"works": works, "there_before": 2 * MIB * some(6, 12)}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return the works and their device, the last GPU. The works compute nothing and only allocate memory."""
    place = torch.device(device.type, torch.cuda.device_count() - 1)

    def taken(size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device=place)

    def work(sizes: dict[str, int]) -> Callable[[], torch.Tensor]:
        calls = []

        def run() -> torch.Tensor:
            """Return a tensor; keep another in a list that is never emptied."""
            if calls:
                raise RuntimeError("this work was called a second time: call each work once")
            calls.append(1)
            if sizes["kept"]:
                HELD.append(taken(sizes["kept"]))
            scratch = taken(sizes["scratch"])
            assert scratch.device == place
            return taken(sizes["result"])

        return run

    HELD.clear()  # free the last case's tensors first: no new tensor may use their segments
    torch.cuda.empty_cache()
    HELD.append(taken(drawn["there_before"]))
    return {"works": [work(sizes) for sizes in drawn["works"]], "device": place}
