"""A product, additions and a tiny addition, with the peaks of the GPU at hand, or of a faster one."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.hardware.gpus import gpu_spec

SIZES = (832, 6_000_000, 200, 6_000_000)
"""Rows of the square factors of a product; elements of the additions. On every GPU the limits are those of a large
product, a large addition and a launch, but the CPU computes eleven of each in about a third of a second."""
FASTER = (1.0, 2.3, 1.0, 4.4)
"""Peaks over those of the GPU. The additions reach 0.73 to 1.0 of the bandwidth of any GPU, so 0.32 to 0.44 and 0.17 to
0.23 of these: just above and just below the bound of 0.25."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """A size near the size of the case."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    size = SIZES[case] + int(torch.randint(0, 33, (), generator=chance))
    return {"size": size, "is_product": case == 0, "faster": FASTER[case]}


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return a function that runs a kernel on existing tensors, so that a call takes no memory."""
    size = drawn["size"]
    shape = (size, size) if drawn["is_product"] else (size,)
    x, y, out = torch.ones(shape, device=device), torch.ones(shape, device=device), torch.empty(shape, device=device)
    spec = gpu_spec(torch.cuda.get_device_name(device))
    return {
        "work": (lambda: torch.mm(x, y, out=out)) if drawn["is_product"] else (lambda: torch.add(x, y, out=out)),
        "flops": 2 * size**3 if drawn["is_product"] else size,
        "moved": 3 * 4 * out.numel(),
        "peak_flops": spec.float32_flops * drawn["faster"],
        "bandwidth": spec.bytes_per_s * drawn["faster"],
    }
