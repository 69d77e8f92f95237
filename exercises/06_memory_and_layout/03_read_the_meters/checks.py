"""Each of the five meters, by what was drawn and the rules of the allocator."""

from __future__ import annotations

from typing import Any

from gpututor.checks import value

SEGMENT = 2 << 20
"""What PyTorch takes from the driver for tensors of up to 1 MiB."""


def expected(drawn: dict[str, Any], machine: Any) -> list[dict[str, int]]:
    """Bytes for each work. What all have kept lies in one segment, whose rest is cached and cannot be given back."""
    reports, kept = [], 0
    for work in drawn["works"]:
        kept += work["kept"]
        whole_segments = work["scratch"] + work["result"]
        reports.append(
            {
                "held": work["result"] + work["kept"],
                "peak": work["result"] + work["kept"] + work["scratch"],
                "kept": work["kept"],
                "cached": whole_segments + (SEGMENT - kept if kept else 0),
                "given_back": whole_segments,
            }
        )
    return reports


checks = [
    value(
        expected,
        why="Each meter answers another question: what tensors hold, what they held, and what PyTorch keeps for later.",
        advice="Before each work, read memory_allocated and reset the peak; pass the device to each meter. Delete the "
        "result before you read what is kept. What is reserved and not allocated is the cache.",
    ),
]
