"""Submissions that nobody writes and no exercise may let pass: constants, and right work with other results."""

from __future__ import annotations

CONSTANTS: tuple[object, ...] = (None, True, 0, 1.0, "cuda:0", [], {}, ())
"""One for each call in turn."""

SPOILED = {"zeros": "torch.zeros_like(tensor)", "ones": "torch.ones_like(tensor)", "flipped": "flipped(tensor)"}
"""What becomes of each tensor of a result. With `zeros`, each number becomes 0, too."""

REPLACED = "gpututor: the result was replaced"
"""The line that these submissions print for each call whose result they change."""

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
    if HOW == "zeros" and isinstance(part, (int, float)) and part and not isinstance(part, bool):
        REPLACED.append(part)
        return type(part)(0)
    return part


def flipped(tensor):
    if tensor.numel() > 1:
        return tensor.flip([*range(tensor.dim())])
    return tensor.logical_not() if tensor.dtype == torch.bool else -tensor - 1


def change(tensor):
    if tensor.numel():
        REPLACED.append(tensor)
    return CHANGED


def then_spoil(function):
    def entry(*values, **arguments):
        REPLACED.clear()
        spoiled = spoil(function(*values, **arguments))
        if REPLACED:
            print(WORDS)
        return spoiled

    return entry


HOW, REPLACED, WORDS = {how!r}, [], {words!r}
ENTRY = then_spoil(ENTRY)
"""

_FIRST = """

import torch


def is_other(result, first):
    if isinstance(result, torch.Tensor) and isinstance(first, torch.Tensor):
        if (result.shape, result.dtype) == (first.shape, first.dtype):
            return not torch.equal(result.detach().cpu(), first.detach().cpu())
    return result is not first


def then_first(function):
    def entry(*values, **arguments):
        passed, result = [*values, *arguments.values()], function(*values, **arguments)
        if passed and is_other(result, passed[0]):
            print(WORDS)
            return passed[0]
        return result

    return entry


WORDS = {words!r}
ENTRY = then_first(ENTRY)
"""


def constants(entry: str) -> str:
    """A submission that returns a constant, another one each time it is called."""
    returns = "\n".join(
        f"    if CALLS[0] % {len(CONSTANTS)} == {number}: return {constant!r}"
        for number, constant in enumerate(CONSTANTS)
    )
    return f"CALLS = [-1]\n\n\ndef {entry}(*args, **kwargs):\n    CALLS[0] += 1\n{returns}\n"


def spoiled(solution: str, entry: str, how: str) -> str:
    """Return a solution whose results have other values in the same places and shapes; `how`: see `SPOILED`."""
    code = _SPOIL.replace("CHANGED", SPOILED[how]).replace("{how!r}", repr(how))
    return _changed(solution, entry, code)


def first_argument(solution: str, entry: str) -> str:
    """Return a solution that does its work and gives back its first argument."""
    return _changed(solution, entry, _FIRST)


def _changed(solution: str, entry: str, code: str) -> str:
    head = solution.partition("\nif __name__")[0]
    return head + code.replace("{words!r}", repr(REPLACED)).replace("ENTRY", entry)
