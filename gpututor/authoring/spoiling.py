"""Submissions that nobody writes and no exercise may let pass: constants, and right results with other values."""

from __future__ import annotations

CONSTANTS: tuple[object, ...] = (None, True, 0, 1.0, "cuda:0", [], {}, ())
"""One for each call in turn."""

SPOILED = {"zeros": "torch.zeros_like(tensor)", "ones": "torch.ones_like(tensor)", "flipped": "flipped(tensor)"}
"""What becomes of each tensor of a result."""

_SPOIL = """

import numpy
import torch


def spoil(part):
    if isinstance(part, torch.nn.Module):
        for tensor in part.state_dict().values():
            tensor.copy_(change(tensor))
        return part
    if isinstance(part, dict):
        return {key: spoil(inner) for key, inner in part.items()}
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(spoil, part))
    if isinstance(part, (list, tuple)):
        return type(part)(map(spoil, part))
    if isinstance(part, numpy.ndarray):
        return change(torch.tensor(part)).numpy()
    if isinstance(part, torch.Tensor):
        return change(part)
    return part


def flipped(tensor):
    if tensor.numel() > 1:
        return tensor.flip([*range(tensor.dim())])
    return tensor.logical_not() if tensor.dtype == torch.bool else -tensor - 1


def change(tensor):
    return CHANGED


def then_spoil(function):
    return lambda *values, **arguments: spoil(function(*values, **arguments))


ENTRY = then_spoil(ENTRY)
"""


def constants(entry: str) -> str:
    """A submission that returns a constant, another one each time it is called."""
    returns = "\n".join(
        f"    if CALLS[0] % {len(CONSTANTS)} == {number}: return {constant!r}"
        for number, constant in enumerate(CONSTANTS)
    )
    return f"CALLS = [-1]\n\n\ndef {entry}(*args, **kwargs):\n    CALLS[0] += 1\n{returns}\n"


def spoiled(solution: str, entry: str, how: str) -> str:
    """A solution whose results have the same shapes in the same places, and other values; `how`: see `SPOILED`."""
    head = solution.partition("\nif __name__")[0]
    return head + _SPOIL.replace("CHANGED", SPOILED[how]).replace("ENTRY", entry)
