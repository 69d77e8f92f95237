"""Small programs with known behavior on CUDA, and the source of that knowledge.

`@gives` and `@raises` put a function into the list of its file. The function runs on a machine with two GPUs. The
result is compared after `seen` has put tensors into plain words. So it can be compared between two devices too.
"""

from __future__ import annotations

import pkgutil
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

ANY = "…"
"""Placeholder for any text in an expected text."""


@dataclass(frozen=True)
class Outcome:
    """Result of a program."""

    value: Any = None
    """Returned value, as `seen` writes it."""
    error: str = ""
    """The class and the whole text of what it raised: `RuntimeError: ...`."""
    warned: tuple[str, ...] = ()
    """The class and text of each warning."""


@dataclass(frozen=True)
class Program:
    """A program and its outcome on CUDA."""

    run: Callable[[], Any]
    expected: Outcome
    source: str
    """Source of the outcome: a file of PyTorch or a page of its documentation."""
    waits: int | None = None
    """Number of waits of the host for the GPU; None to leave it open."""
    breaks: bool = False
    """True if it leaves PyTorch's state of the process broken, on a real GPU: a capture that failed does."""

    @property
    def name(self) -> str:
        return f"{self.run.__module__.rsplit('.', 1)[1]}-{self.run.__name__}"


PROGRAMS: list[Program] = []
Declared = Callable[[Callable[[], Any]], Callable[[], Any]]


def load_programs() -> list[Program]:
    """Import all files of programs, and return the programs."""
    folder = import_module("tests.fidelity.programs")
    for module in pkgutil.iter_modules(folder.__path__):
        import_module(f"{folder.__name__}.{module.name}")
    return PROGRAMS


def gives(value: Any, *, source: str, warned: tuple[str, ...] = (), waits: int | None = None) -> Declared:
    """Declare that the program, on CUDA, returns `value`, warns `warned` and waits so often."""
    return _declared(Outcome(value, "", warned), source, waits=waits)


def raises(error: type[Exception], text: str, *, source: str, breaks: bool = False) -> Declared:
    """Declare that the program, on CUDA, ends with exactly that class of error and that text."""
    return _declared(Outcome(None, f"{error.__name__}: {text}"), source, breaks=breaks)


def _declared(expected: Outcome, source: str, **known: Any) -> Declared:
    def declare(run: Callable[[], Any]) -> Callable[[], Any]:
        PROGRAMS.append(Program(run, expected, source, **known))
        return run

    return declare


def on(device: str, dtype: str, values: Any) -> tuple[str, str, Any]:
    """Return the form in which `seen` writes a tensor: `on("cuda:0", "float32", [1.0, 2.0])`."""
    return (device, dtype, values)


def seen(value: Any) -> Any:
    """`value` with every tensor as `on(device, dtype, values to 5 digits)` and every device and dtype as its name."""
    if isinstance(value, torch.Tensor):
        return on(str(value.device), _name(value.dtype), _rounded(value.detach().tolist()))
    if isinstance(value, torch.dtype):
        return _name(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, dict):
        return {name: seen(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(seen(part) for part in value) if type(value) in (tuple, list) else tuple(map(seen, value))
    return _rounded(value)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def outcome(program: Program) -> Outcome:
    """Run it, from CUDA's seed on, and say what happened."""
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error = seen(program.run()), ""
        except Exception as raised:
            value, error = None, f"{type(raised).__name__}: {raised}"
    warned = (f"{warning.category.__name__}: {warning.message}" for warning in caught)
    return Outcome(value, error, tuple(_INTERNAL.sub("", text) for text in warned if _OF_VERSIONS not in text))


_INTERNAL = re.compile(r" \(Triggered internally at .*\)$")
"""A line of C++ in a warning, which Python's own warnings lack."""
_OF_VERSIONS = "Profiler clears events at the end of each cycle"
"""Words of a warning that only some versions of PyTorch give."""


def alike(text: str, expected: str) -> bool:
    """Return True if `text` is as expected; `…` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split(ANY))), text, re.DOTALL) is not None


def as_expected(actual: Outcome, expected: Outcome) -> bool:
    """Equal values; errors and warnings with the same words."""
    return (
        actual.value == expected.value
        and alike(actual.error, expected.error)
        and len(actual.warned) == len(expected.warned)
        and all(map(alike, actual.warned, expected.warned))
    )


MIB = 2**20


def allocated() -> int:
    return torch.cuda.memory_allocated()


def reserved() -> int:
    return torch.cuda.memory_reserved()


def taken(size_bytes: int) -> torch.Tensor:
    return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
