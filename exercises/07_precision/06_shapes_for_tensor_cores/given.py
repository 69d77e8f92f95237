"""A table of words with odd sizes, batches of hidden states, and labels."""

from __future__ import annotations

from typing import Any

import torch

SIZES = (
    {"words": 2003, "features": 300, "rows": (512, 500)},
    {"words": 1003, "features": 188, "rows": (20, 13, 20, 8)},
    {"words": 1209, "features": 124, "rows": (8, 8, 8, 8, 8, 8)},
)
"""Neither words nor features are multiples of 8. The first case has long products. In the others, the table has more
bytes than all scores together.

Padding to multiples of 64 makes no product more than a tenth larger than padding to multiples of 8.
"""


def draw(seed: int, case: int) -> dict[str, Any]:
    """Return inputs for scores of both signs, and a bias far below zero: a word with a score of 0 would be likely."""
    chance = torch.Generator().manual_seed(seed * 10 + case)
    words, features, rows = SIZES[case].values()
    table = torch.randn(words, features, generator=chance) / features**0.5
    batches = [2 * torch.randn(count, features, generator=chance) for count in rows]
    return {
        "table": table.half(),
        "bias": (torch.randn(words, generator=chance) - 6).half(),
        "batches": [batch.half() for batch in batches],
        "labels": [torch.randint(words, (count,), generator=chance) for count in rows],
    }


def build(drawn: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Put everything on the device."""
    return {
        "table": drawn["table"].to(device),
        "bias": drawn["bias"].to(device),
        "batches": [batch.to(device) for batch in drawn["batches"]],
        "labels": [label.to(device) for label in drawn["labels"]],
    }
