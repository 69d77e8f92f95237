"""Results as trees: comparing what came with what a reference made, part by part."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy
import torch

from gpututor.protocol.values import ObservedArray, ObservedModule, ObservedObject, ObservedTensor
from gpututor.text import truncate

LONGEST_KEY = 80
"""Characters of a key that are shown."""
LONGEST_PATH = 300
_DIGEST_BYTES = 8


def to_tree(value: Any) -> Any:
    """A reference's result in the form of an observed one: modules become their state by name, all the way down."""
    match value := opened(value):
        case dict():
            return {key: to_tree(part) for key, part in value.items()}
        case list():
            return [to_tree(part) for part in value]
        case tuple():
            return tuple(to_tree(part) for part in value)
    return value


def opened(value: Any) -> Any:
    """The same for `value` itself; its parts stay as they are."""
    match value:
        case ObservedModule():
            return value.state
        case torch.nn.Module():
            return value.state_dict(keep_vars=True)
        case torch.Size():
            return tuple(value)
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
            # Not `a Name`: a class may have any name, `tensor` and `dict` among them.
            return f"an object of class {value.type_name}"
        case ObservedArray() | numpy.ndarray():
            return "a NumPy array"
    for plain in _PLAIN:
        if type(value) is plain or (isinstance(value, plain) and plain in _CONTAINERS):
            return f"an {plain.__name__}" if plain is int else f"a {plain.__name__}"
    return f"an object of class {type(value).__name__}"


_CONTAINERS = (dict, list, tuple)
_PLAIN = (bool, int, float, str, *_CONTAINERS, torch.device, torch.dtype)
"""What travels as itself."""


def joined(path: str, part: object) -> str:
    """The path of a part. A long one is cut, and known by its digest: each of thousands has one below a long key."""
    whole = f"{path}.{part}" if path else str(part)
    if len(whole) <= LONGEST_PATH:
        return whole
    digest = blake2b(whole.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{whole[: LONGEST_PATH - 2 * _DIGEST_BYTES - 1]}…{digest}"


def key_in_words(key: object) -> str:
    """A key of a dict, bounded."""
    return truncate(repr(key[: LONGEST_KEY + 1] if isinstance(key, str) else key), LONGEST_KEY)


class LeafComparison:
    """Objects that were compared and found the same. What is like a third is alike: of n no more than n are compared.

    They are known by their identities, so that somebody else has to keep them.
    """

    def __init__(self) -> None:
        self._groups: dict[int, set[int]] = {}

    def are(self, one: object, other: object) -> bool:
        """Whether that is known."""
        return id(other) in self._group(one)

    def join(self, one: object, other: object) -> None:
        """They were found the same."""
        small, large = sorted((self._group(one), self._group(other)), key=len)
        large |= small
        self._groups |= dict.fromkeys(small, large)

    def _group(self, one: object) -> set[int]:
        return self._groups.setdefault(id(one), {id(one)})


Leaf = Callable[[str, Any, Any], str | None]


class Difference(NamedTuple):
    """The first part of a result that is not as in another one."""

    path: str
    wrong: str
    """What it is, and what it should be."""
    expected: Any
    """The part as it should be."""
    wanted: str = ""
    """Words for what it should be, where a description of the part does not say it."""


def first_difference(
    expected: Any, got: Any, leaf: Leaf, path: str = "", alike: LeafComparison | None = None
) -> Difference | None:
    """The first part that differs in type or nesting, or by `leaf`; None without.

    `leaf(path, expected, got)` looks at parts of equal type that are no containers, and returns words or None. Tensors
    that are known to be `alike` are not looked at again, in however many places they stand.
    """
    alike = LeafComparison() if alike is None else alike
    if type_name(expected) != type_name(got):
        return Difference(path, f"{type_name(got)} instead of {type_name(expected)}", expected)
    if isinstance(expected, torch.nn.Module) and (layers := _layers(expected, got)):
        return Difference(path, layers[0], expected, layers[1])
    part, whole = expected, type_name(expected)
    expected, got = opened(expected), opened(got)
    match expected:
        case dict():
            if expected.keys() != got.keys():
                return Difference(path, f"{whole} {_keys(expected, got)}", part)
            parts = [(key, expected[key], got[key]) for key in expected]
        case list() | tuple():
            if len(expected) != len(got):
                return Difference(path, f"{len(got)} parts instead of {len(expected)}", part)
            parts = [(index, *pair) for index, pair in enumerate(zip(expected, got, strict=True))]
        case _:
            is_tensor = isinstance(got, ObservedTensor)
            if is_tensor and alike.are(expected, got):
                return None
            wrong = leaf(path, expected, got)
            if wrong is not None:
                return Difference(path, wrong, part)
            if is_tensor:
                alike.join(expected, got)
            return None
    for key, one, other in parts:
        difference = first_difference(one, other, leaf, joined(path, key), alike)
        if difference is not None:
            return difference
    return None


def _layers(expected: torch.nn.Module, got: ObservedModule) -> tuple[str, str] | None:
    """Words for the first submodule that differs in name or class, and for what is wanted."""
    wanted = [(name, type(layer).__name__) for name, layer in expected.named_modules() if name]
    for (wanted_name, wanted_class), (name, class_name) in zip(wanted, got.layers, strict=False):
        if (wanted_name, wanted_class) != (name, class_name):
            right = f"{wanted_name!r}, a {wanted_class}"
            return f"a module with {key_in_words(name)}, a {class_name}, instead of {right}", f"a module with {right}"
    if len(wanted) != len(got.layers):
        right = f"a module of {len(wanted)} layers"
        return f"a module of {len(got.layers)} layers instead of {len(wanted)}", right
    learned = {name for name, _ in expected.named_parameters(remove_duplicate=False)}
    for name in got.state:
        if (name in got.parameters) != (name in learned):
            kind, right = ("parameter", "buffer") if name in got.parameters else ("buffer", "parameter")
            return f"a module whose {name!r} is a {kind} instead of a {right}", f"a module whose {name!r} is a {right}"
    return None


def _keys(expected: dict[Any, Any], got: dict[Any, Any]) -> str:
    missing = [key for key in expected if key not in got]
    extra = [key for key in got if key not in expected]
    words = []
    if missing:
        words.append(f"without {', '.join(map(key_in_words, missing[:5]))}")
    if extra:
        words.append(f"with the unknown {', '.join(map(key_in_words, extra[:5]))}")
    return " and ".join(words)
