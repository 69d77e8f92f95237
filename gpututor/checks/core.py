"""What every check is made of: a name, a sentence, and a function that looks at a run and finds what is wrong."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from gpututor.errors import CourseError
from gpututor.trace.columns import Trace
from gpututor.wire.observed import ObservedModule, ObservedTensor, TensorFact

Applies = Callable[["Machine"], bool] | str


@dataclass(frozen=True)
class Machine:
    """The machine that a run saw."""

    scenario: str
    gpus: int
    device: str
    """Where work belongs: `cuda:0`, or `cpu` when there is no GPU."""
    backends: tuple[str, ...]
    virtual: bool
    gpu_name: str
    """What the device is called, such as `Tesla T4`; empty without one."""
    memory_bytes: int | None
    """Memory of each device; None without one, or where nobody can tell."""


@dataclass(frozen=True)
class Call:
    """One call of the learner's function."""

    drawn: dict[str, Any]
    """What was drawn for it: CPU tensors and plain values. Nobody may change them."""
    arguments: dict[str, TensorFact]
    """Each tensor among the arguments, by path, as it was after the call."""
    output: Any
    """What came back: plain Python with `ObservedTensor` and its kin at the leaves."""
    trace: Trace
    """What the devices did during the call."""
    return_line: int | None = None
    """The line at which the learner's function returned."""


@dataclass(frozen=True)
class Run:
    """What was observed when a submission ran in one scenario."""

    machine: Machine
    calls: tuple[Call, ...]
    source: str
    entry: str

    def line_of(self, call: Call) -> int | None:
        """The line at which a wrong result left the learner's function, else that of its last `return`."""
        return call.return_line or return_line(self.source, self.entry)

    def which(self, call: Call) -> str:
        """Words for one call, to be put behind a sentence: ` (call 2 of 3, with x of shape (7, 1))`."""
        position = next(position for position, other in enumerate(self.calls) if other is call)
        return call_in_words(position, len(self.calls), call.drawn)


@dataclass(frozen=True)
class Finding:
    """What a check found wrong."""

    expected: str
    got: str
    line: int | None = None
    why: str = ""
    advice: str = ""
    """Used when the author gave none."""


@dataclass(frozen=True)
class Check:
    """One check. `find` returns the first thing that is wrong, or None."""

    name: str
    sentence: Callable[[Machine], str]
    find: Callable[[Run], Finding | None]
    needs: tuple[str, ...] = ()
    """Names of checks that must have passed, where the exercise has them."""
    why: str = ""
    advice: str = ""
    on: Applies = field(default="everywhere")

    def applies(self, machine: Machine) -> bool:
        match self.on:
            case "everywhere":
                return True
            case "gpu":
                return machine.device != "cpu"
            case "no gpu":
                return machine.device == "cpu"
            case str():
                raise CourseError(f"check {self.name!r}: on={self.on!r}", 'Use "gpu", "no gpu" or a function.')
        return bool(self.on(machine))


def call_in_words(position: int, calls: int, drawn: dict[str, Any]) -> str:
    """Which call it was, when there are several, and what was passed: ` (call 2 of 3, with index=-1)`."""
    number = [f"call {position + 1} of {calls}"] if calls > 1 else []
    inputs = ", ".join(filter(None, [_input_in_words(name, value) for name, value in drawn.items()][:4]))
    words = ", ".join(number + ([f"with {inputs}"] if inputs else []))
    return f" ({words})" if words else ""


def _input_in_words(name: str, value: Any) -> str:
    match value:
        case torch.Tensor():
            return f"{name} of shape {tuple(value.shape)}"
        case bool() | int() | float() | None:
            return f"{name}={value}"
        case str():
            return f"{name}={value[:40]!r}"
    return ""


def return_line(source: str, entry: str) -> int | None:
    """The line of the last `return` of the function `entry`, of the function itself without one, or None."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry:
            returns = [inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Return)]
            return max(returns, default=node.lineno)
    return None


def tensors_by_path(output: Any) -> dict[str, ObservedTensor]:
    """Each tensor of a result by its path: `` for the whole, `0`, `weights`, `layers.0.bias`."""
    found: dict[str, ObservedTensor] = {}
    waiting: list[tuple[str, Any]] = [("", output)]
    while waiting:
        path, item = waiting.pop()
        match item:
            case ObservedTensor():
                found[path] = item
            case ObservedModule():
                waiting += [(_join(path, name), part) for name, part in item.tensors.items()]
            case dict():
                waiting += [(_join(path, key), part) for key, part in item.items()]
            case list() | tuple():
                waiting += [(_join(path, index), part) for index, part in enumerate(item)]
    return dict(sorted(found.items()))


def named(path: str) -> str:
    """Words for a path of a result."""
    return f"result[{path!r}]" if path and not path.isdigit() else f"result[{path}]" if path else "the result"


def count(number: int, word: str) -> str:
    """`1 copy`, `2 copies`, `no copies`."""
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number or 'no'} {word if number == 1 else plural}"


def _join(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)
