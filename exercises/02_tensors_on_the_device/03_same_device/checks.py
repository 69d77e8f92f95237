"""The smaller side moves, the larger one stays, and the result is where the larger one is."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import parity, placement, structure, transfers


def reference(table: torch.Tensor, queries: torch.Tensor, **places: str) -> torch.Tensor:
    """The product, on the CPU."""
    return table @ queries.T


def larger(drawn: dict[str, Any]) -> str:
    return "table" if drawn["table"].nbytes >= drawn["queries"].nbytes else "queries"


def where_the_larger_is(drawn: dict[str, Any], machine: Any) -> str:
    return str(drawn[f"{larger(drawn)}_place"])


def bytes_moved(drawn: dict[str, Any], target: str) -> int:
    """Bytes of the smaller side if it has to go to `target`, else 0."""
    stays = larger(drawn)
    moves = "queries" if stays == "table" else "table"
    if drawn[f"{stays}_place"] != target or drawn[f"{moves}_place"] == target:
        return 0
    return int(drawn[moves].nbytes)


checks = [
    structure(reference),
    placement(
        outputs=where_the_larger_is,
        why="The caller expects the result next to the larger tensor, where the next step will run.",
        advice="Find out which of the two has more bytes, and move the other to its device.",
    ),
    transfers(
        bytes_to_device=lambda drawn, machine: bytes_moved(drawn, "device"),
        bytes_to_host=lambda drawn, machine: bytes_moved(drawn, "cpu"),
        why="A copy takes time for every byte. The smaller side is the cheaper one to move.",
        advice="Move only the smaller tensor, only if the devices differ, and leave the result where it is.",
    ),
    parity(reference),
]
