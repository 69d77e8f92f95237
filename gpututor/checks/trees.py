"""Results as trees of parts: walking them, and comparing a result with a reference's, part by part."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy
import torch

from gpututor.protocol.values import ObservedArray, ObservedModule, ObservedObject, ObservedTensor
from gpututor.text import truncate

LONGEST_KEY = 80
"""Characters of a key to show."""
LONGEST_PATH = 300
_DIGEST_BYTES = 8
_ONE_LINE = 100
"""Characters up to which a description is shown whole."""
_LONGEST_DESCRIPTION = 200
"""Characters of each part of a longer description."""


def to_tree(value: Any) -> Any:
    """Return a reference's result in the form of an observed one: modules become their state by name, recursively."""
    match value := unwrap(value):
        case dict():
            return {key: to_tree(part) for key, part in value.items()}
        case list():
            return [to_tree(part) for part in value]
        case tuple():
            return tuple(to_tree(part) for part in value)
    return value


def unwrap(value: Any) -> Any:
    """Return the state of a module, the values of an array, a `torch.Size` as a tuple, any other value itself."""
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


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return `value` with `change` applied to each tensor in nested lists, tuples and dicts."""
    match value:
        case torch.Tensor():
            return change(value)
        case list():
            return [map_tensors(part, change) for part in value]
        case tuple():
            return tuple(map_tensors(part, change) for part in value)
        case dict():
            return {key: map_tensors(part, change) for key, part in value.items()}
    return value


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """Return the leaves of nested modules, dicts, lists and tuples by path (`joined`), sorted by path."""
    leaves: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", tree)]
    while waiting:
        path, item = waiting.pop()
        parts: dict[Any, Any]
        match item:
            case ObservedModule():
                parts = item.tensors
            case torch.nn.Module():
                parts = unwrap(item)
            case dict():
                parts = item
            case list() | tuple():
                parts = dict(enumerate(item))
            case _:
                leaves[path] = item
                continue
        waiting += [(joined(path, key), part) for key, part in parts.items()]
    return dict(sorted(leaves.items()))


def tensors_by_path(output: Any) -> dict[str, ObservedTensor]:
    """Return each tensor of a result by its path: `` for the whole, `0`, `weights`, `layers.0.bias`."""
    return {path: leaf for path, leaf in leaves_by_path(output).items() if isinstance(leaf, ObservedTensor)}


def part_name(path: str, whole: Any = None, root: str = "result") -> str:
    """Return `the result`, `result[0]` or `result['weights'][0]`: the part as Python writes it.

    The names in a module's state contain dots. Without the `whole` result, a path is taken as such a name. `root` is
    the name of the whole, such as a file's.
    """
    name, rest = "the result" if root == "result" and not path else root, path
    while rest:
        key, rest, whole = _first_step(rest, whole)
        name += f"[{describe_key(key)}]"
    return name


def _first_step(path: str, whole: Any) -> tuple[str | int, str, Any]:
    """Return the first key of a path, the rest of the path, and the part of `whole` at the key."""
    words = path.split(".")
    for number in range(len(words), 0, -1):  # the longest key first: a dict's keys may contain dots
        text, rest = ".".join(words[:number]), ".".join(words[number:])
        key = int(text) if text.isdecimal() else text
        match whole:
            case dict() if text in whole or key in whole:
                key = text if text in whole else key
                return key, rest, whole[key]
            case list() | tuple() if isinstance(key, int) and key < len(whole):
                return key, rest, whole[key]
    return int(path) if path.isdecimal() else path, "", None


def part_at(tree: Any, path: str) -> Any:
    """Return the part of a tree at `path`, or None. A text, such as a device's name, applies to all parts below it."""
    for step in path.split(".") if path else ():
        number = int(step) if step.isdecimal() else -1
        match tree:
            case dict():
                tree = tree.get(step, tree.get(number))
            case list() | tuple():
                tree = tree[number] if 0 <= number < len(tree) else None
            case str():
                return tree
            case _:
                return None
    return tree


def type_name(value: Any) -> str:
    """Return the word for a value's type: `a tensor`, `a list`, `None`."""
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
"""Types that an observed result keeps."""


def joined(path: str, part: object) -> str:
    """Return the path of a part. A long path is cut and ends in a digest: thousands of parts may share a long key."""
    whole = f"{path}.{part}" if path else str(part)
    if len(whole) <= LONGEST_PATH:
        return whole
    digest = blake2b(whole.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{whole[: LONGEST_PATH - 2 * _DIGEST_BYTES - 1]}…{digest}"


def describe_key(key: object) -> str:
    """Return the `repr` of a dict's key, truncated."""
    return truncate(repr(key[: LONGEST_KEY + 1] if isinstance(key, str) else key), LONGEST_KEY)


class LeafComparison:
    """Groups of objects that were compared and are equal. Equality is transitive, so n objects need n comparisons.

    Objects are identified by `id`, so the caller must keep them alive.
    """

    def __init__(self) -> None:
        self._groups: dict[int, set[int]] = {}

    def are_equal(self, left: object, right: object) -> bool:
        """Return True if the two are known to be equal."""
        return id(right) in self._group(left)

    def join(self, left: object, right: object) -> None:
        """Record that the two are equal."""
        small, large = sorted((self._group(left), self._group(right)), key=len)
        large |= small
        self._groups |= dict.fromkeys(small, large)

    def _group(self, member: object) -> set[int]:
        return self._groups.setdefault(id(member), {id(member)})


Leaf = Callable[[str, Any, Any], str | None]


class Difference(NamedTuple):
    """The first part of a result that differs from the expected one."""

    path: str
    wrong: str
    """Description of the part, and of the expected one."""
    expected: Any
    wanted: str = ""
    """Description of the expected part, if its value alone does not show it."""


def first_difference(
    expected: Any, got: Any, leaf: Leaf, path: str = "", alike: LeafComparison | None = None
) -> Difference | None:
    """Return the first part whose type, nesting or leaf differs; None if there is none.

    `leaf(path, expected, got)` compares parts of equal type that are not containers, and returns a description or
    None. Tensors that are known to be `alike` are not compared again, however often they occur.
    """
    alike = LeafComparison() if alike is None else alike
    if type_name(expected) != type_name(got):
        return Difference(path, f"{type_name(got)} instead of {type_name(expected)}", expected)
    if isinstance(expected, torch.nn.Module) and (layers := _layers(expected, got)):
        return Difference(path, layers[0], expected, layers[1])
    part, whole = expected, type_name(expected)
    expected, got = unwrap(expected), unwrap(got)
    match expected:
        case dict():
            if expected.keys() != got.keys():
                return Difference(path, f"{whole} {_keys(expected, got)}", part)
            parts = [(key, expected[key], got[key]) for key in expected]
        case list() | tuple():
            if len(expected) != len(got):
                return Difference(path, f"{whole} of length {len(got)} instead of {len(expected)}", part)
            parts = [(index, *pair) for index, pair in enumerate(zip(expected, got, strict=True))]
        case _:
            is_tensor = isinstance(got, ObservedTensor)
            if is_tensor and alike.are_equal(expected, got):
                return None
            wrong = leaf(path, expected, got)
            if wrong is not None:
                return Difference(path, wrong, part)
            if is_tensor:
                alike.join(expected, got)
            return None
    differences = (first_difference(wanted, part, leaf, joined(path, key), alike) for key, wanted, part in parts)
    return next((difference for difference in differences if difference is not None), None)


def _layers(expected: torch.nn.Module, got: ObservedModule) -> tuple[str, str] | None:
    """Describe the first submodule that differs in name or class, and the expected one."""
    layers = expected.named_modules(remove_duplicate=False)
    wanted = [(name, type(layer).__name__) for name, layer in layers if name]
    for (wanted_name, wanted_class), (name, class_name, _) in zip(wanted, got.layers, strict=False):
        if (wanted_name, wanted_class) != (name, class_name):
            right = f"{wanted_name!r}, a {wanted_class}"
            return f"a module with {describe_key(name)}, a {class_name}, instead of {right}", f"a module with {right}"
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
        words.append(f"without {', '.join(map(describe_key, missing[:5]))}")
    if extra:
        words.append(f"with the unexpected {', '.join(map(describe_key, extra[:5]))}")
    return " and ".join(words)


def describe_expected(difference: Difference, describe: Callable[[Any], str], whole: Any) -> str:
    """Describe the expected result; start with the part that differs if the whole description is long."""
    words = describe(whole)
    if not difference.wanted and (len(words) <= _ONE_LINE or not difference.path):
        return words
    part = difference.wanted or describe(difference.expected)
    lead = f"{part_name(difference.path, whole)} is {part}" if difference.path else part
    return f"{truncate(lead, _LONGEST_DESCRIPTION)}; the whole result: {truncate(words, _LONGEST_DESCRIPTION)}"
