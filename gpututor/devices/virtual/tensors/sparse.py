"""Sparse COO tensors on a virtual GPU: a wrapper without strides, with memory for indices and values.

Other sparse layouts are unsupported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import META, active_machine
from gpututor.devices.virtual.memory.allocator import Allocation


class SparseBlock:
    """Memory of a sparse tensor: an allocation for each storage of its indices and values, shared with views."""

    __slots__ = ("__weakref__", "_storages", "blocks")

    def __init__(self, blocks: dict[int, Allocation], storages: list[torch.UntypedStorage]) -> None:
        self.blocks = blocks
        """Allocation by the identity of the storage."""
        # Kept alive: a new storage at the same address would be mistaken for a storage that an operator freed.
        self._storages = storages

    @property
    def size_bytes(self) -> int:
        return sum(block.size_bytes for block in self.blocks.values())

    @property
    def address(self) -> int:
        return 0


def parts_of(host: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices and the values of a CPU tensor; raises `NotImplementedError` for a layout other than COO."""
    if host.layout is not torch.sparse_coo:
        raise cuda_errors.unsupported(
            f"tensors of layout {host.layout}", "Use .to_sparse() without a layout, or dense tensors."
        )
    with torch_private.host_only():
        return host._indices(), host._values()


def sparse_bytes(host: torch.Tensor) -> int:
    """Return the bytes of the indices and the values of a CPU tensor."""
    return sum(part.nbytes for part in parts_of(host))


def known_blocks(wrappers: Iterable[Any]) -> dict[int, Allocation]:
    """Return the allocations of virtual tensors, by the identity of the storage."""
    known: dict[int, Allocation] = {}
    for wrapper in wrappers:
        if type(wrapper._block) is SparseBlock:
            known.update(wrapper._block.blocks)
        else:
            known[torch_private.storage_id(wrapper._host)] = wrapper._block
    return known


def blocks_for(host: torch.Tensor, device: torch.device, known: dict[int, Allocation]) -> SparseBlock:
    """Allocate the memory of a sparse CPU tensor on `device`; parts in `known` share theirs."""
    memory = active_machine().gpus[device.index].memory
    blocks: dict[int, Allocation] = {}
    storages = [part.untyped_storage() for part in parts_of(host)]
    for storage in storages:
        block = known.get(storage._cdata) or Allocation(memory, storage.nbytes())
        block.grow(storage.nbytes())
        blocks[storage._cdata] = block
        known = {**known, **blocks}
    return SparseBlock(blocks, storages)


def sparse_on_device(cls: Any, host: torch.Tensor, device: torch.device, block: Any = None) -> Any:
    """Return a virtual tensor of the class `cls` with the values of a sparse `host`."""
    if not active_machine().values:
        raise cuda_errors.unsupported("sparse tensors without values", "Use dense tensors, or run with values.")
    if type(block) is not SparseBlock:
        block = blocks_for(host, device, {})
    made = torch_private.make_wrapper(
        cls,
        host.size(),
        dtype=host.dtype,
        layout=torch.sparse_coo,
        device=META[device.index],
        _extra_dispatch_keys=torch_private.CUDA_AUTOCAST,
    )
    made._host, made._device, made._block, made._layout = host, device, block, host.layout
    return made


def follow_sparse(wrapper: Any) -> None:
    """Update the memory and sizes of a sparse tensor that an operator changed in place."""
    host = wrapper._host
    wrapper._block = blocks_for(host, wrapper._device, known_blocks([wrapper]))
    if wrapper.size() != host.size():
        torch_private.set_data(wrapper, sparse_on_device(type(wrapper), host, wrapper._device, wrapper._block))


def deep_copy_sparse(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return a copy that is a leaf; raise torch's error for a tensor that is not."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    made = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    if tensor.grad is not None:
        made.grad = tensor.grad.__deepcopy__(memo)
    memo[id(tensor)] = made
    return made


def sparse_text(host: torch.Tensor, device: torch.device) -> tuple[str, list[str]]:
    """Return the values and suffixes of a printed sparse tensor, as torch/_tensor_str.py does on CUDA."""
    texts = []
    for name, part in zip(("indices", "values"), parts_of(host), strict=True):
        text = torch_private.format_values(part, len(f"tensor({name}=tensor("))
        size = "" if part.numel() else f", size={tuple(part.shape)}"
        texts.append(f"{name}=tensor({text if part.numel() else '[]'}{size})")
    with torch_private.host_only():
        count = host._nnz()
    suffixes = [f"device='{device}'", f"size={tuple(host.shape)}", f"nnz={count}"]
    if host.dtype not in (torch.get_default_dtype(), torch.int64, torch.bool):
        suffixes.append(f"dtype={host.dtype}")
    suffixes.append(f"layout={host.layout}")
    return ",\n       ".join(texts), suffixes
