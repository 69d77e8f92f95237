"""Values that a worker sends: tensors, arrays and objects as the judge sees them.

A tensor is sent as a contiguous copy of its bytes and a `TensorFact` about the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy
import torch

MAX_DEPTH = 64
MAX_TEXT = 1 << 20
MAX_SAID = 4 << 20
"""Characters of all texts of a result."""
MAX_NAME = 200
MAX_NODES = 200_000
MAX_TENSORS = 4096
MAX_TENSOR_BYTES = 256 << 20
MAX_TOTAL_BYTES = 512 << 20
MAX_DIMENSIONS = 64
MAX_LENGTH = 1 << 48
MAX_KEY = 200
"""Characters of an object's representation as a dict's key."""

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip
NAMED_DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}
NOT_IN_NUMPY = ("bfloat16",)


class ValueRefused(Exception):
    """A value that cannot be sent, or bytes that are no value. Its text is safe to show."""


@dataclass(frozen=True)
class TensorFact:
    """Facts about a tensor on its device. `identity` and `storage` are only comparable within one call."""

    type_name: str
    """`Tensor` or `Parameter`."""
    shape: tuple[int, ...]
    dtype: str
    """The name without `torch.`: `float32`."""
    device: str
    strides: tuple[int, ...]
    offset: int
    identity: int
    """Equal for the same object."""
    storage: int
    """Equal for tensors that share memory."""
    requires_grad: bool = False
    is_leaf: bool = True
    pinned: bool = False
    layout: str = "strided"


@dataclass(frozen=True)
class ObservedTensor:
    """A received tensor: its values on the CPU, contiguous, and the facts about the original."""

    fact: TensorFact
    # Not in the representation: the values of thousands of tensors would take minutes.
    values: torch.Tensor = field(repr=False)
    grad: ObservedTensor | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ObservedModule:
    """A received module: its class, and its parameters and buffers by their state names."""

    class_name: str
    layers: tuple[tuple[str, str, str], ...]
    """Each submodule's name, class and settings as PyTorch prints them (`extra_repr`), in order.

    A module in two places has both names, as in a state dict.
    """
    training: bool
    parameters: dict[str, ObservedTensor] = field(repr=False)
    buffers: dict[str, ObservedTensor] = field(repr=False)
    """All buffers, persistent or not."""
    non_persistent: tuple[str, ...]
    """The names of the buffers that a state dict leaves out."""

    @property
    def tensors(self) -> dict[str, ObservedTensor]:
        return {**self.parameters, **self.buffers}

    @property
    def state(self) -> dict[str, ObservedTensor]:
        """The contents of a state dict."""
        return {name: tensor for name, tensor in self.tensors.items() if name not in self.non_persistent}


@dataclass(frozen=True)
class ObservedArray:
    """A received NumPy array, as a CPU tensor."""

    values: torch.Tensor = field(repr=False)
    storage: int


@dataclass(frozen=True)
class ObservedObject:
    """Any other received value: its type and its bounded repr."""

    type_name: str
    text: str


_OF_PROGRAMS: dict[str, Callable[[torch.nn.Module], Iterator[tuple[str, Any]]]] = {
    "_modules": torch.nn.Module.named_children,
    "_parameters": partial(torch.nn.Module.named_parameters, recurse=False),
    "_buffers": partial(torch.nn.Module.named_buffers, recurse=False),
}


def tensors_in(value: object, *, of_arrays: bool = False) -> dict[str, torch.Tensor]:
    """Return each tensor in `value` by path, such as `batch.0`; with `of_arrays` also those that share NumPy's memory.

    Raises `ValueRefused` for a value that contains itself.
    """
    tensors: dict[str, torch.Tensor] = {}
    stack: list[tuple[str, object, int]] = [("", value, 0)]
    nodes = 0
    while stack:
        path, item, depth = stack.pop()
        nodes += 1
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            raise ValueRefused("an argument is nested too deeply or has too many parts")
        if isinstance(item, torch.Tensor):
            tensors[path] = item
        elif of_arrays and isinstance(owner := _owner_of(item), torch.Tensor):
            tensors[path] = owner
        stack += [(joined(path, name), part, depth + 1) for name, part in _parts(item)]
    return tensors


def _owner_of(item: object) -> object:
    """Return the object whose memory a NumPy array uses, such as a tensor, or None. Return any other item itself."""
    while isinstance(item, numpy.ndarray):
        item = item.base
    return item


def state_in(value: object, depth: int = 0) -> object:
    """Return the state of an argument after a call: tensors, modules, optimizers as dicts, plain values.

    Everything else becomes None. Raises `ValueRefused` for a container that contains itself.
    """
    if depth > MAX_DEPTH:
        raise ValueRefused("an argument is nested too deeply")
    match value:
        case torch.Tensor() | torch.nn.Module():
            return value
        case torch.optim.Optimizer():
            return _optimizer_state(value, depth)
        case dict():
            return {key: state_in(part, depth + 1) for key, part in dict.items(value)}
        case list():
            return [state_in(part, depth + 1) for part in list.__iter__(value)]
        case tuple():
            return tuple(state_in(part, depth + 1) for part in tuple.__iter__(value))
    return value if type(value) in (bool, int, float, str) else None


def _optimizer_state(optimizer: torch.optim.Optimizer, depth: int) -> dict[str, object]:
    """Return `state` by the number of each parameter, as in a state dict, and `groups` without their parameters."""
    groups = vars(optimizer)["param_groups"]
    parameters = [parameter for group in groups for parameter in group["params"]]
    known = vars(optimizer)["state"]
    state = {number: known[parameter] for number, parameter in enumerate(parameters) if parameter in known}
    options = [{key: part for key, part in group.items() if key != "params"} for group in groups]
    return {"state": state_in(state, depth + 1), "groups": state_in(options, depth + 1)}


def _parts(item: object) -> Iterator[tuple[str, object]]:
    """Yield the parts of a container by name; of a module its parameters and buffers."""
    match item:
        case torch.nn.Module():
            parts = iter_parts(item)
            yield from state_of(parts, "_parameters")
            yield from state_of(parts, "_buffers")
        case dict():
            yield from ((str(key), part) for key, part in dict.items(item))
        case list():
            yield from ((str(index), part) for index, part in enumerate(list.__iter__(item)))
        case tuple():
            yield from ((str(index), part) for index, part in enumerate(tuple.__iter__(item)))


def iter_parts(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Return `module.named_modules(remove_duplicate=False)` without that method, which may have been replaced.

    Raises `ValueRefused` for a module that contains itself, or too many.
    """
    parts: list[tuple[str, torch.nn.Module]] = []
    stack: list[tuple[str, torch.nn.Module]] = [("", module)]
    while stack:
        path, part = stack.pop()
        parts.append((path, part))
        if len(parts) > MAX_NODES or path.count(".") > MAX_DEPTH:
            raise ValueRefused("the result is a module that is nested too deeply or has too many parts")
        children = reversed(list(dict.items(_dictionary(part, "_modules"))))
        stack += [(joined(path, name), child) for name, child in children if child is not None]
    return parts


def state_of(parts: list[tuple[str, torch.nn.Module]], kind: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield `_parameters` or `_buffers` of all parts, by their full names."""
    for path, part in parts:
        for name, tensor in dict.items(_dictionary(part, kind)):
            if tensor is not None:
                yield joined(path, name), tensor


def _dictionary(module: torch.nn.Module, kind: str) -> dict[str, Any]:
    """Return `_modules`, `_parameters` or `_buffers` of a module. A TorchScript program keeps them in C++."""
    if isinstance(module, torch.jit.ScriptModule):
        return dict(_OF_PROGRAMS[kind](module))
    return cast("dict[str, Any]", vars(module)[kind])


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
