"""A program that runs hostile calls from number `sys.argv[1]` on, and prints a line before and after each."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.patches import PATCHES
from tests.hostile.virtual import more_calls  # noqa: F401
from tests.hostile.virtual.calls import CALLS

_META = re.compile(r"(?i:\bmeta\b)|Meta[A-Z]")


def _plain(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.detach().to_dense().tolist()}"
    if isinstance(value, list | tuple):
        return str([_plain(item) for item in value])
    return str(value)


def _answer(call: Any, device: str) -> tuple[str, str]:
    """Return ('gave', result) or (class of the error, its text), each on a single line."""
    try:
        return "gave", _plain(call(device)).replace("\n", " ")
    except Exception as error:
        return type(error).__name__, str(error).replace("\n", " ")


def _verdict(call: Any) -> str:
    """Compare the call on the device and on the CPU; return the difference, or an empty text."""
    there, said = _answer(call, "cuda")
    here, right = _answer(call, "cpu")
    if _META.search(said) and not _META.search(right):
        return f"says meta: {said}"
    if there == "gave":
        return "" if (here, right) == (there, said) else f"gave {said} where the CPU {here} {right}"
    if there in ("AssertionError", "UnboundLocalError", "KeyError", "SystemError", "RecursionError", "MemoryError"):
        return f"{there}: {said}"
    return "" if said else f"{there} without a word"


def _refused(call: str, replacement: Any) -> str:
    try:
        replacement()
    except NotImplementedError as error:
        return "" if call in str(error) else f"does not name itself: {error}"
    return "was not refused"


def main() -> None:
    warnings.simplefilter("ignore")
    refusals = [patch.replacement for patch in PATCHES if isinstance(getattr(patch.replacement, "refuses", None), str)]
    work: list[tuple[str, Callable[[], str]]] = [
        *((f"refused {refusal.refuses}", partial(_refused, refusal.refuses, refusal)) for refusal in refusals),
        *((name, partial(_verdict, call)) for name, call in CALLS.items()),
    ]
    with virtual_gpu(2):
        for number, (name, judge) in list(enumerate(work))[int(sys.argv[1]) :]:
            print(f"start {number} {name}", flush=True)
            print(f"end {judge()}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
