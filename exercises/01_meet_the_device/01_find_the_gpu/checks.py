"""The answer is a fact about the machine of each scenario."""

from __future__ import annotations

from typing import Any

from gpututor.checks import value


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, Any]:
    """The facts about the scenario's machine."""
    return {
        "available": machine.gpus > 0,
        "count": machine.gpus,
        "names": [machine.gpu_name] * machine.gpus,
        "memory_bytes": [machine.memory_bytes] * machine.gpus,
    }


checks = [
    value(
        expected,
        why="A program that knows its GPUs can log why it is slow, and can choose sizes that fit.",
        advice="Compare the two dictionaries entry by entry. A name without () is the function, not its answer.",
    ),
]
