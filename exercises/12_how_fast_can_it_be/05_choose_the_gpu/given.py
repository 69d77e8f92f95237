"""Jobs with one limit each, and GPUs in random order at random prices."""

from __future__ import annotations

from typing import Any

import torch

GIB = 1 << 30
GPUS = (
    ("T4", 65e12, 320e9, 16, 0.35),
    ("L4", 121e12, 300e9, 24, 0.5),
    ("A100", 312e12, 2.04e12, 80, 1.6),
    ("H100", 989e12, 3.35e12, 80, 7.0),
)
"""Name, FLOP/s of bfloat16 (float16 on a T4), bytes/s, GiB, dollars an hour."""
JOBS = (
    {"flops": 4e12, "bytes": 2e9, "memory": 9, "slack": 40.0},
    {"flops": 2e11, "bytes": 3e10, "memory": 9, "slack": 40.0},
    {"flops": 4e12, "bytes": 2e9, "memory": 60, "slack": 40.0},
    {"flops": 3e12, "bytes": 4e10, "memory": 9, "slack": 1.2},
    {"flops": 3e12, "bytes": 4e10, "memory": 9, "slack": 0.5},
    {"flops": 4e12, "bytes": 2e9, "memory": 9, "slack": 5.0},
    {"flops": 4e12, "bytes": 2e9, "memory": 80, "slack": 40.0},
)
"""`slack` is the deadline over the hours on an H100. Bound by arithmetic, by memory, too large for some, urgent, too
urgent for all, urgent for the cheapest only, exactly as large as the memory of two."""


def draw(seed: int, case: int) -> dict[str, Any]:
    """A job near the job of the case, and the GPUs in a random order."""
    chance = torch.Generator().manual_seed(seed * 10 + case)

    def about(figure: float, part: float = 0.1) -> float:
        return figure * (1 + part * (2 * torch.rand((), generator=chance).item() - 1))

    gpus = [
        {
            "name": name,
            "peak_flops": flops,
            "bandwidth": bandwidth,
            "memory_bytes": memory * GIB,
            "dollars_per_hour": round(about(dollars), 3),
        }
        for name, flops, bandwidth, memory, dollars in GPUS
    ]
    kind = JOBS[case]
    job: dict[str, Any] = {
        "steps": int(about(50_000)),
        "flops": about(kind["flops"]),
        "bytes": about(kind["bytes"]),
        "memory_bytes": int(kind["memory"] * GIB),
        "efficiency": about(0.45),
    }
    fastest = max(job["flops"] / 989e12, job["bytes"] / 3.35e12)
    hours = job["steps"] * fastest / job["efficiency"] / 3600
    order = torch.randperm(len(gpus), generator=chance).tolist()
    return {"job": {**job, "deadline_hours": hours * kind["slack"]}, "gpus": [gpus[place] for place in order]}
