"""Results as trees: comparing what came with what a reference made, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpututor.wire.observed import ObservedArray, ObservedModule, ObservedObject, ObservedTensor


def as_tree(value: Any) -> Any:
    """A reference's result in the form of an observed one: modules become their state by name."""
    match value:
        case torch.nn.Module() | ObservedModule():
            state = value.state if isinstance(value, ObservedModule) else value.state_dict(keep_vars=True)
            return {name: as_tree(part) for name, part in state.items()}
        case dict():
            return {key: as_tree(part) for key, part in value.items()}
        case torch.Size():
            return tuple(value)
        case list():
            return [as_tree(part) for part in value]
        case tuple():
            return tuple(as_tree(part) for part in value)
        case ObservedArray():
            return value.values.numpy()
    return value


def type_name(value: Any) -> str:
    """The word for a value's type: `a tensor`, `a list`, `None`."""
    match value:
        case None:
            return "None"
        case ObservedTensor() | torch.Tensor():
            return "a tensor"
        case ObservedModule() | torch.nn.Module():
            return "a module"
        case ObservedObject():
            return f"a {value.type_name}"
        case ObservedArray():
            return "a NumPy array"
    name = type(value).__name__
    if name == "ndarray":
        return "a NumPy array"
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


Leaf = Callable[[str, Any, Any], str | None]


def first_difference(expected: Any, got: Any, leaf: Leaf, path: str = "") -> tuple[str, str] | None:
    """(path, what is wrong there) of the first part that differs in type or nesting, or by `leaf`; None without.

    `leaf(path, expected, got)` looks at parts of equal type that are no containers, and returns words or None.
    """
    if type_name(expected) != type_name(got):
        return path, f"{type_name(got)} instead of {type_name(expected)}"
    if isinstance(expected, torch.nn.Module) and (wrong := _layers(expected, got)):
        return path, wrong
    expected, got = as_tree(expected), as_tree(got)
    match expected:
        case dict():
            if expected.keys() != got.keys():
                return path, _keys(expected, got)
            parts = [(key, expected[key], got[key]) for key in expected]
        case list() | tuple():
            if len(expected) != len(got):
                return path, f"{len(got)} parts instead of {len(expected)}"
            parts = [(index, *pair) for index, pair in enumerate(zip(expected, got, strict=True))]
        case _:
            wrong = leaf(path, expected, got)
            return None if wrong is None else (path, wrong)
    for key, one, other in parts:
        difference = first_difference(one, other, leaf, f"{path}.{key}" if path else str(key))
        if difference is not None:
            return difference
    return None


def _layers(expected: torch.nn.Module, got: ObservedModule) -> str | None:
    """Words for the first submodule that differs in name or class."""
    wanted = [(name, type(layer).__name__) for name, layer in expected.named_modules() if name]
    for (wanted_name, wanted_class), (name, class_name) in zip(wanted, got.layers, strict=False):
        if (wanted_name, wanted_class) != (name, class_name):
            return f"a module with {name!r}, a {class_name}, instead of {wanted_name!r}, a {wanted_class}"
    if len(wanted) != len(got.layers):
        return f"a module of {len(got.layers)} layers instead of {len(wanted)}"
    return None


def _keys(expected: dict[Any, Any], got: dict[Any, Any]) -> str:
    missing = [key for key in expected if key not in got]
    extra = [key for key in got if key not in expected]
    words = []
    if missing:
        words.append(f"without {', '.join(map(repr, missing[:5]))}")
    if extra:
        words.append(f"with the unknown {', '.join(map(repr, extra[:5]))}")
    return f"a dict {' and '.join(words)}"
