"""The fix that each machine needs."""

from __future__ import annotations

from typing import Any

from gpututor.checks import value


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, Any]:
    """Return the answer from the scenario: its GPUs, its backends and its driver."""
    if "cuda" not in machine.backends:
        return {"cuda_build": False, "missing": "a CUDA build"}
    if machine.gpus:
        return {"cuda_build": True, "missing": "nothing"}
    missing = {"fits": "a GPU", "missing": "a driver", "too old": "a newer driver"}
    return {"cuda_build": True, "missing": missing[machine.scenario.driver]}


checks = [
    value(
        expected,
        why="Each cause has its own fix: a new driver does not help a build without CUDA.",
        advice="First ask if the GPU can be used, then look at torch.version.cuda, and finally call torch.cuda.init(): "
        "its message says what is missing.",
    ),
]
