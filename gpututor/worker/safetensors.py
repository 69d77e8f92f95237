"""Reading safetensors files: a length, a JSON header, and bytes. Nothing in them is ever run.

The format: https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import json
import math
from typing import Any

import torch

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_LONGEST_HEADER = 1 << 20
_LENGTH_BYTES = 8


def read_safetensors(content: bytes) -> dict[str, torch.Tensor]:
    """The tensors by name. Raises `ValueError` that says what is wrong with the file."""
    if len(content) < _LENGTH_BYTES:
        raise ValueError(f"{len(content)} bytes are too few")
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    if length > min(_LONGEST_HEADER, len(content) - _LENGTH_BYTES):
        raise ValueError(f"its header would have {length:,} bytes")
    header = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header.pop("__metadata__", None)
    data = content[_LENGTH_BYTES + length :]
    return {name: _tensor(name[:80], entry, data) for name, entry in header.items()}


def _tensor(name: str, entry: Any, data: bytes) -> torch.Tensor:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} has no dtype, shape and offsets")
    dtype, shape, offsets = _DTYPES.get(str(entry["dtype"])), entry["shape"], entry["data_offsets"]
    if dtype is None:
        raise ValueError(f"{name!r} is of {str(entry['dtype'])[:20]}, which nobody can read here")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"{name!r} has an odd shape or odd offsets")
    size_bytes = math.prod(shape) * dtype.itemsize
    if len(offsets) != 2 or offsets[1] > len(data) or offsets[1] - offsets[0] != size_bytes:
        raise ValueError(f"{name!r} does not lie where the header says")
    if size_bytes == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[offsets[0] : offsets[1]]), dtype=dtype).reshape(shape)
