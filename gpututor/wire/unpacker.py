"""Values that arrive: JSON nodes and raw bytes back to Python, every part checked. Needs torch; no pickle."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpututor.wire.observed import (
    DTYPES,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_LENGTH,
    MAX_NODES,
    ObservedArray,
    ObservedModule,
    ObservedObject,
    ObservedTensor,
    TensorFact,
    ValueRefused,
)


class Unpacker:
    """Turns JSON nodes and buffers back into values. Everything is checked: the other side may have forged it."""

    def __init__(self, buffers: tuple[bytes, ...]) -> None:
        self._buffers = buffers
        self._nodes = 0

    def unpack(self, node: object, depth: int = 0) -> Any:
        """The value of a node: plain Python, `ObservedTensor` and its kin. Raises `ValueRefused` for what is none."""
        self._nodes += 1
        if not isinstance(node, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise ValueRefused("this is not a value")
        try:
            return self._unpack(node, depth)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
            raise ValueRefused(f"this is not a value: {error}") from error

    def _unpack(self, node: dict[str, Any], depth: int) -> Any:
        match node["k"]:
            case "plain" if isinstance(node["v"], str | bool | None):
                return node["v"]
            case "int" if isinstance(node["v"], str) and len(node["v"]) < 1300:
                return int(node["v"])
            case "float":
                return float(node["v"])
            case "list":
                return [self.unpack(item, depth + 1) for item in node["v"]]
            case "tuple":
                return tuple(self.unpack(item, depth + 1) for item in node["v"])
            case "dict":
                return {_key(self.unpack(key, depth + 1)): self.unpack(item, depth + 1) for key, item in node["v"]}
            case "tensor":
                return self._tensor(node)
            case "module":
                parameters = {str(name): self._tensor(item) for name, item in node["parameters"].items()}
                buffers = {str(name): self._tensor(item) for name, item in node["buffers"].items()}
                layers = tuple((str(name), str(kind)) for name, kind in node["layers"])
                passing = tuple(str(name) for name in node["passing"])
                return ObservedModule(str(node["type"]), layers, node["training"] is True, parameters, buffers, passing)
            case "array":
                shape = _lengths(node["shape"])
                return ObservedArray(self._values(shape, node["dtype"], node["buffer"]), _address(node["storage"]))
            case "device":
                return torch.device(str(node["v"]))
            case "dtype":
                return DTYPES[str(node["v"]).removeprefix("torch.")]
            case "size":
                return torch.Size([int(length) for length in node["v"]])
            case "object":
                return ObservedObject(str(node["type"])[:200], str(node["v"])[:2000])
        raise ValueRefused("a kind of value that nobody knows")

    def _tensor(self, node: dict[str, Any]) -> ObservedTensor:
        fact = read_fact(node["fact"])
        grad = None if node["grad"] is None else self._tensor({**node["grad"], "grad": None})
        return ObservedTensor(fact, self._values(fact.shape, fact.dtype, node["buffer"]), grad)

    def _values(self, shape: tuple[int, ...], dtype_name: str, index: object) -> torch.Tensor:
        dtype = DTYPES[dtype_name]
        content = self._buffers[_whole(index)]
        if math.prod(shape) * dtype.itemsize != len(content):
            raise ValueRefused("a tensor whose bytes do not fit its shape")
        if not content:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype).reshape(shape)


def read_fact(raw: dict[str, Any]) -> TensorFact:
    """A fact as `Packer` writes it; raises KeyError, TypeError or `ValueRefused` for anything else."""
    return TensorFact(
        type_name=str(raw["type_name"]),
        shape=_lengths(raw["shape"]),
        dtype=str(raw["dtype"]),
        device=str(raw["device"])[:40],
        strides=_lengths(raw["strides"]),
        offset=_whole(raw["offset"]),
        identity=_address(raw["identity"]),
        storage=_address(raw["storage"]),
        requires_grad=raw["requires_grad"] is True,
        is_leaf=raw["is_leaf"] is True,
        pinned=raw["pinned"] is True,
        layout=str(raw["layout"]),
    )


def facts_by_path(data: object) -> dict[str, TensorFact]:
    """What `Packer.facts` wrote. Raises `ValueRefused` for anything else."""
    if not isinstance(data, dict):
        raise ValueRefused("facts must be an object")
    try:
        return {str(path): read_fact(raw) for path, raw in data.items()}
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueRefused(f"this is not a fact: {error}") from error


def materialise(value: Any) -> Any:
    """What was drawn, as the worker's code gets it: observed tensors become ordinary CPU tensors."""
    match value:
        case ObservedTensor():
            return value.values.requires_grad_(value.fact.requires_grad)
        case list():
            return [materialise(item) for item in value]
        case tuple():
            return tuple(materialise(item) for item in value)
        case dict():
            return {key: materialise(item) for key, item in value.items()}
    return value


def _key(value: Any) -> Any:
    return (
        value
        if isinstance(value, str | int | float | bool | None | tuple | torch.device | torch.dtype)
        else repr(value)
    )


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_LENGTH:
        raise ValueRefused("a length that no tensor has")
    return value


def _address(text: object) -> int:
    if not isinstance(text, str) or len(text) > 24:
        raise ValueRefused("this is no address")
    return int(text)


def _lengths(values: list[Any]) -> tuple[int, ...]:
    if len(values) > MAX_DIMENSIONS:
        raise ValueRefused("a tensor of more dimensions than there are")
    return tuple(_whole(value) for value in values)
