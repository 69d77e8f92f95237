"""The chosen device and the list of all, on machines with no, one and two GPUs."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import value


def expected(drawn: dict[str, Any], machine: Any) -> tuple[torch.device, list[torch.device]]:
    """The device for the drawn index, and every GPU or the CPU alone."""
    gpus = [torch.device("cuda", index) for index in range(machine.gpus)]
    index = drawn["index"]
    chosen = gpus[index] if 0 <= index < len(gpus) else torch.device("cpu")
    return chosen, gpus or [torch.device("cpu")]


checks = [
    value(
        expected,
        why="torch.device() only makes a name. The error comes at the first tensor on a GPU that does not exist.",
        advice="Compare the index with torch.cuda.device_count(), and think of -1 and of a machine without a GPU.",
    ),
]
