"""Scratch memory that an operator's CUDA function takes from the caching allocator while it runs.

The fact `scratch` in `operators.toml` lists the blocks of an operator. A block is a number of bytes, or depends on an
argument or a result; `2*argument0` means two such blocks:

    512           512 bytes
    argument0     the bytes of the argument at that position, as if it were contiguous
    result0       the bytes of the result at that position
    bools0        a byte for each element of that argument
    indices0      an int64 for each element of that argument
    channels0     a float32 for each channel of each image in that argument
    loss0         as `argument0`, unless the loss is not reduced
    scalar0       a number, unless the loss is not reduced: the result keeps the memory of all losses
    converted0    the argument in the dtype of the result, if that is another
    selected1     an int64 for each dimension of a mask, and each element that it selects
    search1       CUB's own memory while it finds a mask's elements, less the result, which is allocated later
    summed1       the indices of a put that accumulates, as CUDA sorts them
    sorted0       the buffers of CUB's sort, if the sorted dimension is long
    grouped2      the gradients of keys or values for each head of the query (argument 1), if they have fewer heads

The sources are the functions in aten/src/ATen/native/cuda; peaks on an H200 agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

from gpututor.devices.virtual.memory.allocator import Allocation, CachingAllocator

Call = tuple[Sequence[Any], Mapping[str, Any], Any]
"""Arguments, keywords and results of an operator, on the CPU."""
_BLOCK = re.compile(r"(?:(\d+)\*)?([a-z]+)(\d)")
_HALF = (torch.float16, torch.bfloat16)
_SEARCH = 1024
"""Bytes of CUB's descriptors of tiles and of the number of elements, less a small result (Nonzero.cu)."""
_SORTED_IN_PLACE = 4096
"""The longest dimension that CUDA sorts without CUB (Sort.cu)."""


def take(memory: CachingAllocator, blocks: tuple[str, ...], call: Call) -> None:
    """Allocate the scratch memory of a call and free it."""
    held = [Allocation(memory, size) for block in blocks for size in _sizes(block, call)]
    del held


def _sizes(block: str, call: Call) -> Iterator[int]:
    if block.isdigit():
        yield int(block)
        return
    times, unit, position = _parse(block)
    size = _UNITS[unit](position, call)
    if size:
        yield from (size,) * times


@cache
def _parse(block: str) -> tuple[int, str, int]:
    match = _BLOCK.fullmatch(block)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"no block of scratch memory: {block}")
    return int(match[1] or 1), match[2], int(match[3])


def is_block(text: str) -> bool:
    """Return True for a block as `operators.toml` may name it."""
    match = _BLOCK.fullmatch(text)
    return text.isdigit() or (match is not None and match[2] in _UNITS)


def _tensor(position: int, call: Call) -> torch.Tensor | None:
    args = call[0]
    value = args[position] if position < len(args) else None
    return value if isinstance(value, torch.Tensor) else None


def _elements(position: int, call: Call, size_bytes: int) -> int:
    tensor = _tensor(position, call)
    return 0 if tensor is None else tensor.numel() * size_bytes


def _argument(position: int, call: Call) -> int:
    tensor = _tensor(position, call)
    return 0 if tensor is None else tensor.numel() * tensor.element_size()


def _results(call: Call) -> Sequence[Any]:
    return call[2] if isinstance(call[2], list | tuple) else (call[2],)


def _result(position: int, call: Call) -> int:
    result = _results(call)[position]
    return int(result.numel() * result.element_size()) if isinstance(result, torch.Tensor) else 0


def _channels(position: int, call: Call) -> int:
    tensor = _tensor(position, call)
    return 0 if tensor is None else 4 * math.prod(tensor.shape[:2])


def _loss(position: int, call: Call) -> int:
    args, kwargs, _ = call
    reduction = kwargs.get("reduction", next((value for value in args if type(value) is int), 1))
    return 0 if reduction == 0 else _argument(position, call)


def _converted(position: int, call: Call) -> int:
    tensor, result = _tensor(position, call), _results(call)[0]
    if tensor is None or tensor.dtype is result.dtype or (tensor.dtype in _HALF and result.dtype is torch.float32):
        return 0
    return int(tensor.numel() * result.element_size())


def _selected(position: int, call: Call) -> int:
    """Return the bytes of the indices that a mask, alone or in a list, becomes."""
    given, result = call[0][position], _results(call)[0]
    if isinstance(given, torch.Tensor):
        return int(8 * result.numel() * max(given.dim(), call[0][0].dim()))
    masks = [index for index in given if index is not None and index.dtype in (torch.bool, torch.uint8)]
    if len(masks) != 1 or not masks[0].numel():
        return 0
    rest = max(call[0][0].numel() // masks[0].numel(), 1)
    return int(8 * masks[0].dim() * (result.numel() // rest))


def _search(position: int, call: Call) -> int:
    given = call[0][position]
    masks = [index for index in given if index is not None and index.dtype in (torch.bool, torch.uint8)]
    return _SEARCH if any(mask.numel() for mask in masks) else 0


def _summed(position: int, call: Call) -> int:
    args, kwargs, _ = call
    if not (args[position + 2] if len(args) > position + 2 else kwargs.get("accumulate", False)):
        return 0
    shapes = [index.shape for index in args[position] if index is not None and index.dtype is torch.int64]
    return 8 * math.prod(torch.broadcast_shapes(*shapes)) if shapes else 0


def _sorted(position: int, call: Call) -> int:
    """Return the bytes of places, and of a second buffer of keys and places."""
    args, kwargs, _ = call
    tensor = _tensor(position, call)
    if tensor is None or not tensor.dim():
        return 0
    dim = kwargs.get("dim", next((value for value in args[1:] if type(value) is int), -1))
    if tensor.shape[dim] <= _SORTED_IN_PLACE:
        return 0
    return tensor.numel() * (8 + 8 + tensor.element_size())


def _grouped(position: int, call: Call) -> int:
    heads = [call[0][place].shape[1] for place in (1, position)]
    return 0 if heads[0] == heads[1] else int(_argument(position, call) // heads[1] * heads[0])


_UNITS: dict[str, Callable[[int, Call], int]] = {
    "argument": _argument,
    "bools": lambda position, call: _elements(position, call, 1),
    "channels": _channels,
    "converted": _converted,
    "grouped": _grouped,
    "indices": lambda position, call: _elements(position, call, 8),
    "loss": _loss,
    "result": _result,
    "scalar": lambda position, call: min(_loss(position, call), 4),
    "search": _search,
    "selected": _selected,
    "sorted": _sorted,
    "summed": _summed,
}
