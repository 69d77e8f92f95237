"""Decoding: JSON nodes and raw bytes to Python values, every part checked. Needs torch; no pickle."""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from gpututor.protocol.values import (
    DTYPES,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_KEY,
    MAX_LENGTH,
    MAX_NAME,
    MAX_NODES,
    NAMED_DTYPES,
    NOT_IN_NUMPY,
    ObservedArray,
    ObservedModule,
    ObservedObject,
    ObservedTensor,
    TensorFact,
    ValueRefused,
)
from gpututor.text import escape_control_chars

_WHOLE = re.compile(r"-?[0-9]{1,1300}", re.ASCII)
_ADDRESS = re.compile(r"[0-9]{1,24}", re.ASCII)
_DEVICE = re.compile(r"[a-z]{1,20}(:[0-9]{1,4})?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.]{1,40}", re.ASCII)
_LARGEST_KEY = 1 << 60
_MOST_TUPLES = 1000
"""Tuples among the keys of one dict: they could be chosen to have the same hash."""
_NOT_FINITE = ("nan", "inf", "-inf")


class Decoder:
    """Decodes JSON nodes and buffers. Everything is checked: the other side may have forged it."""

    def __init__(self, buffers: tuple[bytes, ...]) -> None:
        self._buffers = buffers
        self._owners: dict[int, ObservedTensor | None] = {}
        """The tensor of each buffer; None for an array."""
        self._nodes = 0
        self._in_key = False

    def unpack(self, node: object, depth: int = 0) -> Any:
        """Return the value of a node: plain Python or a class of `values`. Raises `ValueRefused` for anything else."""
        self._count(1)
        if not isinstance(node, dict) or depth > MAX_DEPTH:
            raise ValueRefused("this is not a value")
        try:
            return self._unpack(node, depth)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
            raise ValueRefused(f"this is not a value: {escape_control_chars(str(error)[:200])}") from error

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise ValueRefused("a value of too many parts")

    def _unpack(self, node: dict[str, Any], depth: int) -> Any:
        match node["k"]:
            case "plain" if isinstance(node["v"], str | bool | None):
                return node["v"]
            case "int" if isinstance(node["v"], str) and _WHOLE.fullmatch(node["v"]):
                return int(node["v"])
            case "float" if type(node["v"]) in (int, float) or node["v"] in _NOT_FINITE:
                return float(node["v"])
            case "list":
                return [self.unpack(item, depth + 1) for item in _list(node["v"])]
            case "tuple":
                return tuple(self.unpack(item, depth + 1) for item in _list(node["v"]))
            case "dict":
                return self._dict(_list(node["v"]), depth)
            case "tensor" | "again" | "module" | "array" if self._in_key:
                raise ValueRefused("a dict whose keys hold tensors")
            case "tensor" | "again":
                return self._tensor(node)
            case "module":
                return self._module(node)
            case "array" if node["dtype"] not in NOT_IN_NUMPY:
                shape = _lengths(node["shape"])
                values = self._values(shape, node["dtype"], self._owned(node["buffer"]))
                return ObservedArray(values, _address(node["storage"]))
            case "device":
                return torch.device(_fitting(_DEVICE, node["v"]))
            case "dtype":
                return NAMED_DTYPES[_fitting(_WORD, node["v"]).removeprefix("torch.")]
            case "size":
                return torch.Size(map(_address, _bounded(node["v"])))
            case "object":
                return ObservedObject(_name(node["type"]), escape_control_chars(_text(node["v"])[:2000]))
        raise ValueRefused("an unknown kind of value")

    def _dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        decoded: dict[Any, Any] = {}
        tuples = 0
        for key, item in pairs:
            value = self._key(key, depth + 1)
            tuples += isinstance(value, tuple)
            if _is_key(value) and tuples <= _MOST_TUPLES:
                if value in decoded:
                    raise ValueRefused("a dict with one key twice")
            else:
                # An object is identified by its representation, and by its position if that is not unique.
                value = repr(value)[:MAX_KEY]
                value = value if value not in decoded else f"{value} ({len(decoded)})"
            decoded[value] = self.unpack(item, depth + 1)
        return decoded

    def _key(self, node: object, depth: int) -> Any:
        outermost = not self._in_key
        self._in_key = True
        value = self.unpack(node, depth)
        self._in_key = not outermost
        return value

    def _module(self, node: dict[str, Any]) -> ObservedModule:
        layers, non_persistent = _list(node["layers"]), _list(node["passing"])
        self._count(len(layers) + len(non_persistent))
        return ObservedModule(
            _name(node["type"]),
            tuple((_text(name), _name(kind), _name(settings)) for name, kind, settings in layers),
            node["training"] is True,
            self._tensors(node["parameters"]),
            self._tensors(node["buffers"]),
            tuple(_text(name) for name in non_persistent),
        )

    def _tensors(self, nodes: dict[str, Any]) -> dict[str, ObservedTensor]:
        self._count(len(nodes))
        return {name: self._tensor(item) for name, item in nodes.items()}

    def _tensor(self, node: dict[str, Any], *, is_grad: bool = False) -> ObservedTensor:
        if node["k"] == "again":
            known = self._owners[_whole(node["buffer"])]
            if known is None:
                raise ValueRefused("an array in place of a tensor")
            return known
        fact = read_fact(node["fact"])
        index = self._owned(node["buffer"])
        values = self._values(fact.shape, fact.dtype, index)
        if node["grad"] is not None and is_grad:
            raise ValueRefused("a gradient with a gradient")
        grad = None if node["grad"] is None else self._tensor(node["grad"], is_grad=True)
        tensor = self._owners[index] = ObservedTensor(fact, values, grad)
        return tensor

    def _owned(self, index: object) -> int:
        """Return the index of an unused buffer: many tensors of one buffer would fill our memory."""
        number = _whole(index)
        if number in self._owners:
            raise ValueRefused("two tensors with the same bytes")
        self._owners[number] = None
        return number

    def _values(self, shape: tuple[int, ...], dtype_name: str, index: int) -> torch.Tensor:
        dtype = DTYPES[dtype_name]
        content = self._buffers[index]
        if math.prod(shape) * dtype.itemsize != len(content):
            raise ValueRefused("a tensor whose bytes do not fit its shape")
        if not content:
            return torch.empty(shape, dtype=dtype)
        raw = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        # Any byte except 0 is true; torch would compute with the byte itself.
        return (raw != 0 if dtype is torch.bool else raw.view(dtype)).reshape(shape)


def read_fact(raw: dict[str, Any]) -> TensorFact:
    """Read a fact from an `Encoder`. Raises `KeyError`, `TypeError` or `ValueRefused` for anything else."""
    shape, strides = _lengths(raw["shape"]), _lengths(raw["strides"])
    if len(shape) != len(strides) or raw["type_name"] not in ("Tensor", "Parameter"):
        raise ValueRefused("an impossible tensor")
    return TensorFact(
        type_name=raw["type_name"],
        shape=shape,
        dtype=_fitting(_WORD, raw["dtype"]),
        device=_fitting(_DEVICE, raw["device"]),
        strides=strides,
        offset=_whole(raw["offset"]),
        identity=_address(raw["identity"]),
        storage=_address(raw["storage"]),
        requires_grad=raw["requires_grad"] is True,
        is_leaf=raw["is_leaf"] is True,
        pinned=raw["pinned"] is True,
        layout=_fitting(_WORD, raw["layout"]),
    )


def facts_by_path(data: object) -> dict[str, TensorFact]:
    """Read the result of `Encoder.facts`. Raises `ValueRefused` for anything else."""
    if not isinstance(data, dict) or len(data) > MAX_NODES:
        raise ValueRefused("facts must be an object")
    try:
        return {path: read_fact(raw) for path, raw in data.items()}
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueRefused(f"this is not a fact: {escape_control_chars(str(error)[:200])}") from error


def to_tensor(value: Any) -> Any:
    """Return drawn inputs for the worker's code: observed tensors become distinct CPU tensors."""
    used: set[int] = set()

    def convert(part: Any) -> Any:
        match part:
            case ObservedTensor():
                values = part.values.clone() if id(part) in used else part.values
                used.add(id(part))
                return values.requires_grad_(part.fact.requires_grad)
            case list():
                return [convert(item) for item in part]
            case tuple():
                return tuple(convert(item) for item in part)
            case dict():
                return {key: convert(item) for key, item in part.items()}
        return part

    return convert(value)


def _is_key(value: object) -> bool:
    """Return True if a key is used as it is. Large integers are not: they could be chosen to have the same hash."""
    if type(value) is int:
        return abs(value) <= _LARGEST_KEY
    return isinstance(value, str | float | bool | None | tuple | torch.device | torch.dtype)


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise ValueRefused("this is not a list")
    return value


def _bounded(value: object) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) > MAX_DIMENSIONS:
        raise ValueRefused("a tensor of too many dimensions")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueRefused("this is not a text")
    return value


def _name(value: object) -> str:
    return escape_control_chars(_text(value)[:MAX_NAME])


def _fitting(pattern: re.Pattern[str], value: object) -> str:
    if not pattern.fullmatch(_text(value)):
        raise ValueRefused("an unknown word")
    return str(value)


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_LENGTH:
        raise ValueRefused("an impossible length")
    return value


def _address(text: object) -> int:
    if not isinstance(text, str) or not _ADDRESS.fullmatch(text):
        raise ValueRefused("this is not an address")
    return int(text)


def _lengths(values: object) -> tuple[int, ...]:
    return tuple(map(_whole, _bounded(values)))
