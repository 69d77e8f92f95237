"""Bytes that an operator's kernels read and write, from its name and the shapes and types of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gpututor.devices.virtual.cost.registry import Tensor, element_bytes, tensor_bytes, total_bytes, up
from gpututor.devices.virtual.operator_facts import facts_of, short_name

Tensors = Sequence[Tensor]
_SECTOR = 32
"""Bytes that a read or write at an index moves at least."""
_PER_LAUNCH = (110, 64, 48, 36, 30)
"""Tensors of each list that one multi-tensor kernel takes, by the number of lists; next its blocks, and the elements of
one (aten/src/ATen/native/cuda/MultiTensorApply.cuh)."""
_BLOCKS_PER_LAUNCH, _CHUNK = 320, 65536


def is_in_place(name: str) -> bool:
    """Whether an operator writes its first argument, by its name: `aten::add_`, `aten.add_.Tensor`."""
    bare = name.replace("::", ".").split(".")[1 if "." in name or "::" in name else 0]
    return bare.endswith("_") and not bare.endswith("__")


def is_multi_tensor(name: str) -> bool:
    """Whether an operator takes lists of tensors and computes on all of them in a few kernels."""
    bare = short_name(name)
    return bare.startswith(("_foreach", "_amp_foreach", "_fused_adam", "_fused_sgd", "_fused_adagrad"))


def lists_of(name: str, inputs: Tensors) -> int:
    """How many lists of tensors of the same shapes a multi-tensor operator has."""
    bare, shapes = short_name(name), [one[0] for one in inputs]
    lists = facts_of(bare).lists
    if len(lists) == 1:
        return lists[0]
    if bare.startswith("_fused"):
        # A fused optimiser counts its steps in one number for each parameter; SGD, which has none, in no list.
        sized = [one for one in shapes if one]
        steps = len(shapes) - len(sized)
        if steps:
            return min(max(round(len(sized) / steps), 2), 5)
        return 3 if len(sized) % 3 == 0 and sized == sized[: len(sized) // 3] * 3 else 2
    half, rest = divmod(len(shapes), 2)
    return 2 if lists and half and not rest and shapes[:half] == shapes[half:] else 1


def multi_tensor_kernels(name: str, inputs: Tensors) -> int:
    """Kernels that a multi-tensor operator launches."""
    lists = lists_of(name, inputs)
    first = inputs[: up(len(inputs), lists)]
    chunks = sum(up(prod(one[0]), _CHUNK) for one in first)
    most = _PER_LAUNCH[min(lists, len(_PER_LAUNCH)) - 1]
    return max(up(len(first), most), up(chunks, _BLOCKS_PER_LAUNCH), 1)


def _multi_tensor(name: str, inputs: Tensors, outputs: Tensors) -> int:
    """Where the outputs are not said, the first list is written, and in an optimiser all but the gradients."""
    read, bare = total_bytes(inputs), short_name(name)
    if outputs:
        written = total_bytes(outputs)
    else:
        lists = lists_of(name, inputs)
        written = read * (max(lists - 1, 1) if bare.startswith("_fused") else 1) // lists
    unread = written if is_in_place(name) and bare in ("_foreach_copy", "_foreach_zero") else 0
    return written + max(read - unread, 0)


def _gathered(inputs: Tensors, written: int) -> int:
    """Of the table only the rows that are read count."""
    largest = max(inputs, key=tensor_bytes)
    row = max(element_bytes(largest[1]) * (largest[0][-1] if len(largest[0]) > 1 else 1), 1)
    spread = max(_SECTOR / row, 1.0)
    return int(min(tensor_bytes(largest), written * spread)) + total_bytes(inputs) - tensor_bytes(largest) + written


def _bags(inputs: Tensors, written: int) -> int:
    """Of the table, the first input, a row for each index, the second, though only their sums are written."""
    table, indices = inputs[0], inputs[1]
    row = max(element_bytes(table[1]) * (table[0][-1] if len(table[0]) > 1 else 1), _SECTOR)
    return prod(indices[0]) * row + total_bytes(inputs[1:]) + written


def _scattered(inputs: Tensors) -> int:
    """In place: the rest of the table stays as it is."""
    table, *others = inputs
    values = [one for one in others if one[1] == table[1] and one[0]] or others
    shape = max((one[0] for one in values), key=prod)
    size = element_bytes(table[1])
    spread = max(_SECTOR / max(size * (shape[-1] if len(shape) > 1 else 1), 1), 1.0)
    touched = min(int(prod(shape) * size * spread), tensor_bytes(table))
    return total_bytes(others) + 2 * touched


def bytes_accessed(name: str, kind: str, inputs: Tensors, outputs: Tensors) -> int:
    """Bytes read and written, each tensor once; of tables only what is used of them."""
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
