"""Kinds of operators, each with the function that models its cost."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

Shape = tuple[int, ...]
Tensor = tuple[Shape, str]
"""A shape and a type as torch names it, such as `((2, 3), "float32")`."""

_SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
    "quint8": 1, "qint8": 1, "qint32": 4,
}  # fmt: skip


def element_bytes(dtype: str) -> int:
    """Bytes of one element; the 8-bit floats and whatever else is not known take one."""
    return _SIZES.get(dtype, 1)


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes of the elements."""
    return prod(tensor[0]) * element_bytes(tensor[1])


def total_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of all of them together."""
    return sum(map(tensor_bytes, tensors))


def up(count: int, step: int) -> int:
    """The number of steps that hold the count."""
    return -(-count // step)
