"""Shapes on both sides of the ridge and on it, in types of 1 to 8 bytes, and invented GPUs."""

from __future__ import annotations

from typing import Any

import torch

SHAPES = ((2048, 2048, 2048), (4096, 4096, 1), (8, 1024, 4096), (3, 5, 7), (512, 64, 512), (512, 512, 512))
DTYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.float32)
ON_THE_RIDGE = 5  # the case of equal times


def draw(seed: int, case: int) -> dict[str, Any]:
    """A shape near the shape of the case, and a GPU with a ridge from 10 to 60 FLOPs a byte or at the intensity."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    more = torch.randint(0, 9, (3,), generator=chance).tolist()
    rows, inner, columns = (size + extra if size > 1 else 1 for size, extra in zip(SHAPES[case], more, strict=True))
    bandwidth = float(torch.randint(200, 3000, (), generator=chance)) * 1e9
    peak_flops = bandwidth * (10 + 50 * torch.rand((), generator=chance).item())
    if case == ON_THE_RIDGE:
        # Both times are 2**-19 s, and both quotients round to the same float.
        peak_flops = 2.0 * rows * inner * columns * 2**19
        bandwidth = 4.0 * (rows * inner + inner * columns + rows * columns) * 2**19
    return {
        "rows": rows,
        "inner": inner,
        "columns": columns,
        "dtype": DTYPES[case],
        "peak_flops": peak_flops,
        "bandwidth": bandwidth,
    }
