"""The device of each tensor, by path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gpututor.checks import transfers, value


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, str]:
    """Path and device of each tensor, from where it was put."""
    names = [".".join(path) for path in tensor_paths(drawn["tree"])]
    return {
        name: f"cuda:{place % machine.gpus}" if machine.gpus and place >= 0 else "cpu"
        for name, place in zip(names, drawn["places"], strict=False)
    }


def tensor_paths(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    match tree:
        case torch.Tensor():
            yield path
        case dict():
            for key, branch in tree.items():
                yield from tensor_paths(branch, (*path, str(key)))
        case list() | tuple():
            for position, branch in enumerate(tree):
                yield from tensor_paths(branch, (*path, str(position)))


checks = [
    value(
        expected,
        why="A report that misses a tensor, or that hides which GPU it is on, points at the wrong place.",
        advice="Recurse into dicts, lists and tuples alike, carry the path along, and use str(tensor.device).",
    ),
    transfers(
        to_device=0,
        to_host=0,
        why="Looking at .device needs no values, so nothing has to cross the bus.",
        advice="Read tensor.device; do not print the tensor, move it, or turn it into a list.",
    ),
]
