"""Tensors that are on the device already are not copied; all others are copied once."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import identity, parity, placement, structure, transfers


def reference(batch: torch.Tensor, weights: torch.Tensor, **places: str) -> dict[str, torch.Tensor]:
    """All three results, on the CPU."""
    return {"batch": batch, "weights": weights, "scores": batch @ weights}


def already_there(drawn: dict[str, Any], machine: Any) -> dict[str, str]:
    """Return the arguments that must come back as the same objects: both, if there is no GPU."""
    return {name: name for name in ("batch", "weights") if not must_move(drawn, machine, name)}


def must_move(drawn: dict[str, Any], machine: Any, name: str) -> bool:
    return machine.device != "cpu" and drawn[f"{name}_place"] == "cpu"


def copies_there(drawn: dict[str, Any], machine: Any) -> int:
    return sum(must_move(drawn, machine, name) for name in ("batch", "weights"))


def copies_back(drawn: dict[str, Any], machine: Any) -> int:
    return 0 if machine.device == "cpu" else 1


checks = [
    structure(reference),
    placement(
        outputs={"batch": "device", "weights": "device", "scores": "cpu"},
        advice="Batch and weights belong on the device, only the scores on the CPU. Keep what .to() and .cpu() return.",
    ),
    identity(
        same=already_there,
        why="A needless copy costs memory and time.",
        advice="x.to(device) returns x itself when x is there already; clone(), copy=True and torch.tensor() copy.",
    ),
    transfers(
        to_device=copies_there,
        to_host=copies_back,
        why="Each copy crosses the bus between host and device, the slowest connection in the machine.",
        advice="Move each tensor once, keep the result in a variable, and use that variable everywhere.",
    ),
    parity(reference),
]
