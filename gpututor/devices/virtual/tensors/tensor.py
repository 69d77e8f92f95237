"""A tensor on a virtual GPU: sizes and a device for C++, and a CPU tensor with the values."""

from __future__ import annotations

from typing import Any, cast

import torch

from gpututor.devices.virtual import errors, private, work
from gpututor.devices.virtual.face import pools
from gpututor.devices.virtual.face.types import meant
from gpututor.devices.virtual.machine import META, active, is_on
from gpututor.devices.virtual.memory.allocator import Block
from gpututor.devices.virtual.tensors import bits
from gpututor.devices.virtual.tensors.sparse import PARTS, deep_copy_sparse, parts_of, reduce_sparse, sparse_on_device
from gpututor.devices.virtual.tensors.storage import VirtualStorage, VirtualTypedStorage


def _wrapper(host: torch.Tensor, device: torch.device) -> Any:
    # Arguments that can be left out are left out: each one costs a tenth of the call.
    offset = host.storage_offset()
    if offset:
        return private.make_wrapper(
            VirtualTensor,
            host.size(),
            host.stride(),
            offset,
            dtype=host.dtype,
            device=META[device.index],
            _extra_dispatch_keys=private.CUDA_AUTOCAST,
        )
    return private.make_wrapper(
        VirtualTensor,
        host.size(),
        host.stride(),
        dtype=host.dtype,
        device=META[device.index],
        _extra_dispatch_keys=private.CUDA_AUTOCAST,
    )


def _kind_in_words(host: torch.Tensor) -> str:
    if host.is_nested:
        return "nested tensors (torch.nested) on a device"
    return "quantised tensors" if host.is_quantized else f"tensors of layout {host.layout}"


class VirtualTensor(torch.Tensor):
    """`_host` holds the values, `_device` is what Python sees (`cuda:0`), `_block` is the memory."""

    _host: torch.Tensor
    _device: torch.device
    _block: Block
    _layout: torch.layout = torch.strided

    __torch_function__ = private.plain_function

    @staticmethod
    def __new__(cls: Any, host: torch.Tensor, device: torch.device, block: Block | None = None) -> VirtualTensor:
        return on_device(host, device, block)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done by then; `torch.Tensor(x)` comes here too, with its own arguments."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        # Reached only where no mode is on, such as in a thread that C++ started.
        from gpututor.devices.virtual.operators.dispatch import run

        return run(func, args, kwargs or {})

    # What C++ would answer wrongly.
    device = property(lambda self: self._device)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)
    # C++ knows one sparse layout only, and that only for sparse tensors.
    layout = property(lambda self: self._layout)
    is_sparse = property(lambda self: self._layout is torch.sparse_coo)
    is_sparse_csr = property(lambda self: self._layout is torch.sparse_csr)

    def _get_data(self) -> torch.Tensor:
        return cast(torch.Tensor, private.get_data(self))

    def _set_data(self, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            private.set_data(self, value)  # which says what it wants
            return
        if type(value) is not VirtualTensor:
            from gpututor.devices.virtual.modules.moving import set_data_across_devices

            set_data_across_devices(self, value)
            return
        private.set_data(self, VirtualTensor(value._host, value._device, value._block))
        self._host, self._device, self._block = value._host, value._device, value._block

    data = property(_get_data, _set_data)

    def as_subclass(self, cls: Any) -> Any:
        if cls is torch.Tensor:
            return self.view_as(self)
        raise errors.unsupported(
            f"tensors of the class {cls.__name__} on a device, by .to(), .cuda() or .as_subclass()",
            "Use a plain tensor there.",
        )

    def get_device(self) -> int:
        return int(self._device.index)

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None:
            return self._host.type().replace("torch.", "torch.cuda.", 1)
        found = meant(dtype)
        if found is None:
            raise ValueError(f"invalid type: {str(dtype)!r}")
        kind, wanted = found
        return self.to(device=self._device if kind == "cuda" else kind, dtype=wanted, non_blocking=non_blocking)

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy(force=True)
        raise errors.no_numpy(self._device)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise errors.no_numpy(self._device)

    def tolist(self) -> Any:
        active().home(self._device)
        record_copy_to_host(self, "aten::_to_copy")
        if self._host.is_meta:
            raise errors.NoValues("Tensor.tolist()")
        with private.host_only():
            return self._host.tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        from gpututor.devices.virtual.tensors.printing import text_of

        record_copy_to_host(self, "print")
        return text_of(self)

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and type(self) is VirtualTensor and (spec or not self._host.is_meta):
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from gpututor.devices.virtual.saving.serialisation import deep_copy

        if self._layout is not torch.strided:
            return deep_copy_sparse(self, memo)
        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from gpututor.devices.virtual.saving.serialisation import reduce

        if self._layout is not torch.strided:
            return reduce_sparse(self)
        return reduce(self)

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def pin_memory(self, device: Any = None) -> torch.Tensor:
        raise errors.cannot_pin(self.type())

    def is_shared(self) -> bool:
        return True

    def share_memory_(self) -> VirtualTensor:
        return self

    def record_stream(self, stream: Any) -> None:
        """Say that a stream uses the memory: once the tensor is gone, it is kept until that stream is done."""
        if self._block.recorded is None:
            self._block.recorded = set()
        self._block.recorded.add(pools.number_of(stream.stream_id))

    def data_ptr(self) -> int:
        active().home(self._device)
        if self._host.is_meta:
            return self._block.address + int(self.storage_offset()) * self.element_size()
        return self._host.data_ptr()

    # torch's own is not seen by function modes.
    def set_(self, *args: Any, **kwargs: Any) -> VirtualTensor:
        from gpututor.devices.virtual.tensors.sources import set_source

        return set_source(self, *args, **kwargs)

    def untyped_storage(self) -> Any:
        active().home(self._device)
        return VirtualStorage(self._host.untyped_storage(), self._block, self._device)

    def storage(self) -> Any:
        private.warn_typed_storage(stacklevel=2)
        return self._typed_storage()

    def storage_type(self) -> Any:
        private.warn_typed_storage(stacklevel=2)
        return getattr(torch.cuda, self._typed_storage().type().rpartition(".")[-1])

    def _typed_storage(self) -> Any:
        active().home(self._device)
        return VirtualTypedStorage(self._host.untyped_storage(), self._block, self._device, self.dtype)

    @property
    def __cuda_array_interface__(self) -> Any:
        # The memory is the host's: a library that would read it as a GPU's must not see it.
        raise AttributeError("a virtual GPU's tensor has no CUDA memory to share")

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise errors.unsupported("Tensor.__dlpack__", "There is no CUDA memory to share.")


def on_device(host: torch.Tensor, device: torch.device, block: Block | None = None) -> VirtualTensor:
    """A virtual tensor with the values of `host`; without a block, one is taken for its storage.

    Raises CUDA's out-of-memory error, and `NotImplementedError` for kinds of tensor that have no such wrapper.
    """
    if host.layout is not torch.strided or host.is_quantized or host.is_nested:
        if host.layout in PARTS:
            return cast(VirtualTensor, sparse_on_device(VirtualTensor, host, device, block))
        raise errors.unsupported(_kind_in_words(host))
    if block is None:
        block = Block(active().gpus[device.index].memory, host.untyped_storage().nbytes())
    if torch.is_inference_mode_enabled() and not host.is_inference():
        # A view of an ordinary tensor is ordinary, also in inference mode.
        with torch.inference_mode(False):
            made = _wrapper(host, device)
    else:
        made = _wrapper(host, device)
    made._host = host
    made._device = device
    made._block = block
    if bits.seen:
        private.follow_bits(made, host)
    return cast(VirtualTensor, made)


# A learner who prints type(x) sees what CUDA shows; torch's own error texts name the class too.
VirtualTensor.__module__ = "torch"
VirtualTensor.__name__ = VirtualTensor.__qualname__ = "Tensor"


def is_virtual(tensor: object) -> bool:
    """Whether `tensor` lives on a virtual GPU."""
    return type(tensor) is VirtualTensor


def host_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The plain CPU tensor behind a virtual one, detached, sharing its memory; a CPU tensor detached. Not recorded."""
    with private.host_only():
        return (tensor._host if type(tensor) is VirtualTensor else tensor).detach()


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory, different for those that do not, while both live."""
    host = tensor._host if type(tensor) is VirtualTensor else tensor
    return private.storage_id(host if host.layout is torch.strided else parts_of(host)[-1])


def size_bytes(tensor: torch.Tensor) -> int:
    """The bytes of its elements, not of its storage."""
    return tensor.numel() * tensor.element_size()


def record_copy_to_host(tensor: VirtualTensor, name: str) -> None:
    """A blocking copy of the whole tensor to the host: one transfer and one wait."""
    if is_on() and tensor.numel() and id(tensor._device) in active().by_device:
        work.copy_to_host(active(), tensor._device, size_bytes(tensor), name)
