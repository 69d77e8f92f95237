"""Bytes that an operator's kernels read and write, from its name and the shapes and dtypes of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from gpututor.devices.virtual.operator_facts import facts_of, short_name

Shape = tuple[int, ...]
Tensor = tuple[Shape, str]
"""Shape and dtype of a tensor, such as `((2, 3), "float32")`."""
Tensors = Sequence[Tensor]

_ITEMSIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
    "quint8": 1, "qint8": 1, "qint32": 4,
}  # fmt: skip
_SECTOR = 32
"""Minimum bytes of an indexed read or write: a sector of the L2 cache."""
_PER_LAUNCH = (110, 64, 48, 36, 30)
"""Tensors per list that one multi-tensor kernel takes, by the number of lists; then the maximum blocks of a kernel, and
the elements of a block (aten/src/ATen/native/cuda/MultiTensorApply.cuh)."""
_BLOCKS_PER_LAUNCH, _CHUNK = 320, 65536


def element_bytes(dtype: str) -> int:
    """Return the bytes of an element; 1 for 8-bit floats and unknown dtypes."""
    return _ITEMSIZES.get(dtype, 1)


def tensor_bytes(tensor: Tensor) -> int:
    return prod(tensor[0]) * element_bytes(tensor[1])


def total_bytes(tensors: Iterable[Tensor]) -> int:
    return sum(map(tensor_bytes, tensors))


def ceil_div(count: int, step: int) -> int:
    return -(-count // step)


def is_in_place(name: str) -> bool:
    """Return True if an operator writes its first argument, by its name: `aten::add_`, `aten.add_.Tensor`."""
    bare = name.replace("::", ".").split(".")[1 if "." in name or "::" in name else 0]
    return bare.endswith("_") and not bare.endswith("__")


def is_multi_tensor(name: str) -> bool:
    """Return True if an operator computes on whole lists of tensors in a few kernels."""
    return short_name(name).startswith(("_foreach", "_amp_foreach", "_fused_adam", "_fused_sgd", "_fused_adagrad"))


def lists_of(name: str, inputs: Tensors) -> int:
    """Return the number of lists of equal shapes that a multi-tensor operator takes."""
    bare, shapes = short_name(name), [shape for shape, _ in inputs]
    lists = facts_of(bare).lists
    if len(lists) == 1:
        return lists[0]
    if bare.startswith("_fused"):
        # A fused optimizer has a 0-d step tensor per parameter; SGD has none.
        sized = [shape for shape in shapes if shape]
        steps = len(shapes) - len(sized)
        if steps:
            return min(max(round(len(sized) / steps), 2), 5)
        return 3 if len(sized) % 3 == 0 and sized == sized[: len(sized) // 3] * 3 else 2
    half, rest = divmod(len(shapes), 2)
    return 2 if lists and half and not rest and shapes[:half] == shapes[half:] else 1


def multi_tensor_kernels(name: str, inputs: Tensors) -> int:
    """Return the number of kernels that a multi-tensor operator launches."""
    lists = lists_of(name, inputs)
    first = inputs[: ceil_div(len(inputs), lists)]
    chunks = sum(ceil_div(prod(shape), _CHUNK) for shape, _ in first)
    most = _PER_LAUNCH[min(lists, len(_PER_LAUNCH)) - 1]
    return max(ceil_div(len(first), most), ceil_div(chunks, _BLOCKS_PER_LAUNCH), 1)


def chunk_bytes(name: str, inputs: Tensors, moved: int) -> float:
    """Return the bytes that the busiest block of a multi-tensor operator moves, of `moved` in all."""
    first = [prod(shape) for shape, _ in inputs[: ceil_div(len(inputs), lists_of(name, inputs))]]
    return moved * min(max(first, default=0), _CHUNK) / max(sum(first), 1)


def _multi_tensor(name: str, inputs: Tensors, outputs: Tensors) -> int:
    """Return the bytes; without outputs the first list is written, in an optimizer all lists but the gradients."""
    read, bare = total_bytes(inputs), short_name(name)
    if outputs:
        written = total_bytes(outputs)
    else:
        lists = lists_of(name, inputs)
        written = read * (max(lists - 1, 1) if bare.startswith("_fused") else 1) // lists
    unread = written if is_in_place(name) and bare in ("_foreach_copy", "_foreach_zero") else 0
    return written + max(read - unread, 0)


def _gathered(inputs: Tensors, written: int) -> int:
    """Return the bytes of a gather, which reads only some rows of its table, the largest input."""
    largest = max(inputs, key=tensor_bytes)
    row = max(element_bytes(largest[1]) * (largest[0][-1] if len(largest[0]) > 1 else 1), 1)
    spread = max(_SECTOR / row, 1.0)
    return int(min(tensor_bytes(largest), written * spread)) + total_bytes(inputs) - tensor_bytes(largest) + written


def _bags(inputs: Tensors, written: int) -> int:
    """Return the bytes of an embedding bag, which reads a row of `inputs[0]` per index in `inputs[1]`."""
    table, indices = inputs[0], inputs[1]
    row = max(element_bytes(table[1]) * (table[0][-1] if len(table[0]) > 1 else 1), _SECTOR)
    return prod(indices[0]) * row + total_bytes(inputs[1:]) + written


def _scattered(inputs: Tensors) -> int:
    """Return the bytes of a scatter in place, which touches only some rows of its table, the first input."""
    table, *others = inputs
    values = [other for other in others if other[1] == table[1] and other[0]] or others
    shape = max((shape for shape, _ in values), key=prod)
    size = element_bytes(table[1])
    spread = max(_SECTOR / max(size * (shape[-1] if len(shape) > 1 else 1), 1), 1.0)
    touched = min(int(prod(shape) * size * spread), tensor_bytes(table))
    return total_bytes(others) + 2 * touched


def bytes_accessed(name: str, kind: str, inputs: Tensors, outputs: Tensors) -> int:
    """Return the bytes read and written: each tensor once, of an indexed table only the rows used."""
    if is_multi_tensor(name):
        return _multi_tensor(name, inputs, outputs)
    written = total_bytes(outputs)
    if kind == "gather" and len(inputs) > 1 and short_name(name).startswith("_embedding_bag"):
        return _bags(inputs, written)
    if kind == "gather" and inputs:
        return _gathered(inputs, written)
    if kind == "nll" and len(inputs) > 1:
        return prod(inputs[1][0]) * (_SECTOR + 8) + written
    if inputs and is_in_place(name):
        if kind == "scatter" and len(inputs) > 1:
            return _scattered(inputs)
        if facts_of(short_name(name)).overwrites:
            return total_bytes(inputs[1:]) + (written or tensor_bytes(inputs[0]))
    return total_bytes(inputs) + written
