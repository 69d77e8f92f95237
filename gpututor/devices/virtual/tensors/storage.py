"""Storages of virtual tensors for Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import CPU, NOWHERE, active_machine, requested_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.tensors.moves import record_copy_of_bytes

COPY = "aten::copy_"
"""The operator that copies a storage (torch/csrc/StorageMethods.cpp)."""


def new_storage(cls: Any, *args: Any, device: Any = None, **options: Any) -> Any:
    """Replace `torch.UntypedStorage(...)`: on a virtual GPU, make it from a size or a sequence of bytes."""
    if device is None:
        return torch_private.new_storage(cls, *args, **options)
    place = requested_device(device)
    if place.type != "cuda":
        return torch_private.new_storage(cls, *args, device=device, **options)
    size_bytes = torch_private.new_storage(torch.UntypedStorage, *args, device=NOWHERE, **options).nbytes()
    made = VirtualStorage.empty(size_bytes % 2**64, gpu_device(place))  # C++ takes the size as unsigned
    if args and isinstance(args[0], Sequence):
        for index, value in enumerate(args[0]):  # C++ also sets one byte at a time
            made[index] = value
    return made


_real_is_storage: Any = torch.is_storage
_real_copy: Any = torch.UntypedStorage.copy_


def is_storage(obj: Any, /) -> bool:
    return isinstance(obj, VirtualStorage) or bool(_real_is_storage(obj))


class VirtualStorage(torch.UntypedStorage):
    """Storage of a virtual tensor.

    To C++ it is a storage on `meta`, without memory that C++ could read. C++ methods that this class does not define
    raise an error that names them.
    """

    _host: torch.UntypedStorage
    _block: Allocation
    _gpu: torch.device
    _start: int | None = None
    """Bytes before a slice in its allocation; None for a whole storage."""

    def __new__(cls, host: torch.UntypedStorage, block: Any, device: torch.device) -> VirtualStorage:
        storage: VirtualStorage = torch_private.new_storage(cls, host.nbytes(), device=NOWHERE)
        storage._host = host
        # Keeps the device's memory allocated.
        storage._block = block
        storage._gpu = device
        return storage

    @classmethod
    def empty(cls, size_bytes: int, device: torch.device) -> VirtualStorage:
        """Return a new storage on a GPU; `device` is the machine's own device object."""
        machine = active_machine()
        memory = machine.home(device).memory
        memory.of_thread.writer = None
        block = Allocation(memory, size_bytes)
        host = torch_private.new_storage(torch.UntypedStorage, size_bytes, device=machine.host_device)
        return cls(host, block, device)

    @property
    def is_slice(self) -> bool:
        return self._start is not None

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self._gpu

    @property
    def _cdata(self) -> int:
        return int(self._host._cdata)

    def data_ptr(self) -> int:
        return int(self._block.address) + (self._start or 0)

    def nbytes(self) -> int:
        return self._host.nbytes()

    def size(self) -> int:
        return self._host.nbytes()

    def __len__(self) -> int:
        return self._host.nbytes()

    def element_size(self) -> int:
        return 1

    def is_shared(self) -> bool:
        return True

    def resizable(self) -> bool:
        return not self.is_slice

    def cuda(self, device: Any = None, non_blocking: bool = False) -> VirtualStorage:
        """Return the storage itself if it is on that GPU; otherwise a copy there."""
        wanted = gpu_device(requested_device("cuda" if device is None else device))
        return self if wanted == self.device else storage_on(wanted, self._host, self.device, "UntypedStorage.cuda")

    def to(self, *, device: Any, non_blocking: bool = False) -> Any:
        """Return a copy on a GPU or the host; on the host, in pinned memory if `non_blocking`."""
        wanted = requested_device(device)
        if wanted.type == "cuda":
            return self.cuda(wanted)
        return torch_private.move_storage(self, device=wanted, non_blocking=non_blocking)

    def clone(self) -> VirtualStorage:
        return storage_on(self.device, self._host, self.device, "UntypedStorage.clone")

    def copy_(self, source: Any, non_blocking: bool | None = None) -> Any:
        """Copy the bytes of a storage of the same size into this one."""
        _copy(source, self, self._host)
        return self

    def resize_(self, size: int) -> VirtualStorage:
        """Move the bytes to memory of another size; 0 frees it, as FSDP does."""
        if self.is_slice:
            raise RuntimeError("Trying to resize storage that is not resizable")
        memory = active_machine().home(self.device).memory
        before = self.nbytes()
        if size > before:
            memory.check_fits(size)
        memory.of_thread.writer = None
        if size != before:
            self._block.resize(size)
        if min(size, before) > 0 and size != before:
            record_copy_of_bytes(self.device, self.device, min(size, before), "UntypedStorage.resize_")
        with torch_private.host_only():
            self._host.resize_(size)
        return self

    def cpu(self) -> torch.UntypedStorage:
        """Return a copy on the host: one transfer, one wait."""
        return torch.UntypedStorage(self.nbytes()).copy_(self)

    def _write_file(self, *args: Any) -> None:
        """Write the bytes to a file in torch's older format."""
        self.cpu()._write_file(*args)

    def _set_from_file(self, *args: Any) -> VirtualStorage:
        """Fill a storage that `torch.load` has placed on the GPU from a file in torch's older format."""
        with torch_private.host_only():
            self._host._set_from_file(*args)
        return self

    def _bytes(self) -> torch.Tensor:
        return torch.empty((0,), dtype=torch.uint8, device=self.device).set_(self)

    def fill_(self, value: Any) -> VirtualStorage:
        self._bytes().fill_(value)
        return self

    def __getitem__(self, place: Any) -> Any:
        _check_values("UntypedStorage[...]")
        value = self._host[place]
        if isinstance(place, slice):
            part = VirtualStorage(value, self._block, self.device)
            part._start = (self._start or 0) + place.indices(self.nbytes())[0]
            return part
        record_copy_of_bytes(self.device, CPU, 1, "UntypedStorage[...]")
        return value

    def __setitem__(self, place: Any, value: Any) -> None:
        self._bytes()[place] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualStorage) and other._cdata == self._cdata

    def __hash__(self) -> int:
        return hash(self._cdata)

    def __repr__(self) -> str:
        if active_machine().values:
            return str(super().__repr__())  # type: ignore[no-untyped-call]
        return f"[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __reduce_ex__(self, protocol: Any) -> Any:
        with torch_private.host_only():
            values = torch.empty((0,), dtype=torch.uint8).set_(self.cpu())
            return _unpickled, (values.numpy().tobytes(), str(self.device))


for _name in set(dir(torch.UntypedStorage.__bases__[0])) - set(dir(object)) - vars(VirtualStorage).keys():
    setattr(VirtualStorage, _name, cuda_errors.refused_function(f"UntypedStorage.{_name}"))


def _check_values(what: str) -> None:
    if not active_machine().values:
        raise cuda_errors.NoValues(what)


def _copy(source: Any, target: torch.UntypedStorage, target_host: torch.UntypedStorage) -> None:
    """Copy the bytes of a storage to a storage of the same size; at least one is on a virtual GPU."""
    if source.device.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if source.nbytes() != target.nbytes():
        raise RuntimeError(  # torch/csrc/StorageMethods.cpp
            f"size does not match, self was {target.nbytes()} bytes but src was {source.nbytes()} bytes"
        )
    virtual = virtual_storage(source)
    if not isinstance(target, VirtualStorage):
        _check_values("UntypedStorage.cpu()")
    for storage in (source, target):
        if storage.device.type == "cuda":
            active_machine().home(storage.device)
    record_copy_of_bytes(source.device, target.device, target.nbytes(), COPY)
    with torch_private.host_only():
        _real_copy(target_host, source if virtual is None else virtual._host)


def copy_on_host(self: torch.UntypedStorage, source: Any, *args: Any, **kwargs: Any) -> torch.UntypedStorage:
    """Replace `UntypedStorage.copy_` of the host's storages."""
    if virtual_storage(source) is None:
        return cast(torch.UntypedStorage, _real_copy(self, source, *args, **kwargs))
    _copy(source, self, self)
    return self


def share_on_host(self: torch.UntypedStorage) -> None:
    """Replace `UntypedStorage._share_cuda_` of the host's storages, which a build for the CPU does not know."""
    raise RuntimeError("_share_cuda_: only available on CUDA")  # torch/csrc/StorageSharing.cpp


def virtual_storage(source: object) -> VirtualStorage | None:
    """Return `source` if it is a virtual storage, or the virtual storage in a TypedStorage; otherwise None."""
    untyped = source._untyped_storage if isinstance(source, torch.TypedStorage) else source
    return untyped if isinstance(untyped, VirtualStorage) else None


def on_host(source: VirtualStorage | torch.TypedStorage) -> Any:
    """Return the CPU storage of a virtual storage's values, without a copy, typed if `source` is typed."""
    if isinstance(source, VirtualStorage):
        return source._host
    host = cast(VirtualStorage, source._untyped_storage)._host
    return typed(host, source.dtype)


def gpu_device(device: torch.device) -> torch.device:
    """Return the machine's own object for a device of type cuda; without an index, the current GPU's."""
    machine = active_machine()
    return machine.current.device if device.index is None else machine.gpu(device.index).device


def storage_on(device: torch.device, host: torch.UntypedStorage, source: torch.device, name: str) -> VirtualStorage:
    """Return a storage on a GPU with the bytes of `host`, copied from the device `source`."""
    memory = active_machine().home(device).memory
    memory.of_thread.writer = None
    block = Allocation(memory, host.nbytes())
    record_copy_of_bytes(source, device, host.nbytes(), name)
    with torch_private.host_only():
        return VirtualStorage(host.clone(), block, device)


def _unpickled(values: bytes, device: str) -> VirtualStorage:
    with torch_private.host_only():
        host = torch.UntypedStorage(0)
        if values:  # `frombuffer` rejects an empty buffer
            host = torch.frombuffer(bytearray(values), dtype=torch.uint8).untyped_storage()
    return storage_on(gpu_device(torch.device(device)), host, CPU, "pickle.loads")


def typed(untyped: Any, dtype: torch.dtype) -> torch.TypedStorage:
    """Return the deprecated storage that counts in elements."""
    return torch.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def new_wrapped_storage(self: torch.TypedStorage, untyped: Any) -> Any:
    """Replace `TypedStorage._new_wrapped_storage`, which copies and moves storages."""
    if isinstance(untyped, VirtualStorage):
        return typed(untyped, self.dtype)
    return torch_private.wrapped_storage(self, untyped)


# For `print(type(x))` and error messages, as with tensors.
VirtualStorage.__module__ = "torch.storage"
VirtualStorage.__name__ = VirtualStorage.__qualname__ = "UntypedStorage"
