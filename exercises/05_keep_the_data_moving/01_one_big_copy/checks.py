"""A single fast copy, of the wanted rows only."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import parity, placement, speed, structure, transfers


def reference(table: torch.Tensor, wanted: list[int]) -> torch.Tensor:
    """The rows one by one, on the CPU."""
    return torch.stack([table[number].clone() for number in wanted])


def bytes_of_the_rows(drawn: dict[str, Any], machine: Any) -> int:
    """Bytes of the wanted rows."""
    return len(drawn["wanted"]) * int(drawn["table"][0].nbytes)


checks = [
    structure(reference, advice="table[wanted] takes a list of row numbers and gives one tensor of two dimensions."),
    placement(
        why="The next step of the training reads these rows on the device.",
        advice="Gather on the CPU, then .to(device), and return what .to() returned.",
    ),
    transfers(
        to_device=1,
        to_host=0,
        bytes_to_device=bytes_of_the_rows,
        why="Each copy costs a launch and a trip over the bus, however small it is; and each byte takes time.",
        advice="Index the table on the CPU with the whole list, and move the result once.",
    ),
    speed(
        1 / 3,
        compared_with="one copy for each row",
        why="One copy should save time: what the host does before the copy must not cost more than the copy saves.",
        advice="One indexing operation gathers all rows. Do not grow a tensor row by row.",
    ),
    parity(reference, why="Row i of the result belongs to wanted[i]: the order counts, and so do repeated rows."),
]
