"""Storages of virtual tensors for Python."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import CPU, active_machine, meant_device
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.devices.virtual.tensors.moves import record_copy_of_bytes


def new_storage(cls: Any, *args: Any, device: Any = None, **options: Any) -> Any:
    """Replace `torch.UntypedStorage(...)`, which knows no virtual GPU."""
    if device is None:
        return torch_private.new_storage(cls, *args, **options)
    if meant_device(device).type == "cuda":
        raise cuda_errors.unsupported("torch.UntypedStorage(..., device='cuda')", "Make a tensor: it has a storage.")
    return torch_private.new_storage(cls, *args, device=device, **options)


_real_is_storage: Any = torch.is_storage


def is_storage(obj: Any, /) -> bool:
    """Replace `torch.is_storage`."""
    return isinstance(obj, VirtualStorage) or bool(_real_is_storage(obj))


class VirtualStorage:
    """Storage of a virtual tensor, which can be compared, measured, read and copied to the host."""

    is_cuda = True
    is_sparse = False
    is_hpu = False
    _seen_as: Any = torch.UntypedStorage
    # Only for `isinstance`. A real subclass would have a C++ object without memory, which C++ would read.
    __class__ = property(lambda self: self._seen_as)

    def __init__(self, host: torch.UntypedStorage, block: Any, device: torch.device) -> None:
        self._host = host
        # Keeps the device's memory allocated.
        self._block = block
        self.device = device
        self._cdata = host._cdata

    def data_ptr(self) -> int:
        return int(self._block.address)

    def nbytes(self) -> int:
        return self._host.nbytes()

    def size(self) -> int:
        return self._host.nbytes()

    def __len__(self) -> int:
        return self._host.nbytes()

    def element_size(self) -> int:
        return 1

    def get_device(self) -> int:
        return int(self.device.index)

    def type(self) -> str:
        return "torch.cuda.UntypedStorage"

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def is_shared(self) -> bool:
        return True

    def cuda(self, device: Any = None, non_blocking: bool = False) -> VirtualStorage:
        """Return the storage itself if it is on that GPU; otherwise a copy there."""
        wanted = gpu_device(meant_device("cuda" if device is None else device))
        return self if wanted == self.device else self._copy_on(wanted, "UntypedStorage.cuda")

    def clone(self) -> VirtualStorage:
        return self._copy_on(self.device, "UntypedStorage.clone")

    def copy_(self, source: Any, non_blocking: bool = False) -> VirtualStorage:
        """Copy the bytes of a storage of the same size into this one."""
        host = source._host if isinstance(source, VirtualStorage) else source
        if host.nbytes() != self.nbytes():
            raise RuntimeError(  # torch/csrc/StorageMethods.cpp
                f"size does not match, self was {self.nbytes()} bytes but src was {host.nbytes()} bytes"
            )
        record_copy_of_bytes(source.device, self.device, self.nbytes(), "UntypedStorage.copy_")
        with torch_private.host_only():
            self._host.copy_(host)
        return self

    def resize_(self, size: int) -> VirtualStorage:
        """Move the bytes to memory of another size; 0 frees it, as FSDP does."""
        memory = active_machine().home(self.device).memory
        before = self.nbytes()
        if size > before:
            memory.expect(size)
        memory.of_thread.writer = None
        if size != before:
            self._block.resize(size)
        if min(size, before) > 0 and size != before:
            record_copy_of_bytes(self.device, self.device, min(size, before), "UntypedStorage.resize_")
        with torch_private.host_only():
            self._host.resize_(size)
        return self

    def on_host(self) -> Any:
        """Return the storage of the values, which is not copied."""
        return self._host

    def _copy_on(self, device: torch.device, name: str) -> VirtualStorage:
        return storage_on(device, self._host, self.device, name)

    def cpu(self) -> torch.UntypedStorage:
        """Return a copy on the host: one transfer, one wait."""
        self._check_values("UntypedStorage.cpu()")
        record_copy_of_bytes(self.device, CPU, self._host.nbytes(), "UntypedStorage.cpu")
        with torch_private.host_only():
            copy: torch.UntypedStorage = self._host.clone()
        return copy

    def _check_values(self, what: str) -> None:
        active_machine().home(self.device)
        if not active_machine().values:
            raise cuda_errors.NoValues(what)

    def tolist(self) -> list[int]:
        values: list[int] = self.cpu().tolist()
        return values

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __getitem__(self, place: Any) -> Any:
        self._check_values("UntypedStorage[...]")
        return self._host[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualStorage) and other._cdata == self._cdata

    def __hash__(self) -> int:
        return hash(self._cdata)

    def __repr__(self) -> str:
        return f"[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __reduce_ex__(self, protocol: Any) -> Any:
        with torch_private.host_only():
            values = torch.empty((0,), dtype=torch.uint8).set_(self.cpu())
            return _unpickled, (values.numpy().tobytes(), str(self.device))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise cuda_errors.unsupported(f"UntypedStorage.{name}")


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
        if values:  # an empty buffer is refused
            host = torch.frombuffer(bytearray(values), dtype=torch.uint8).untyped_storage()
    return storage_on(gpu_device(torch.device(device)), host, CPU, "pickle.loads")


class VirtualTypedStorage(VirtualStorage):
    """Deprecated `storage()` of a virtual tensor, counted in elements."""

    _seen_as = torch.TypedStorage

    def __init__(self, host: torch.UntypedStorage, block: Any, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(host, block, device)
        self.dtype = dtype

    @classmethod
    def of(cls, untyped: VirtualStorage, dtype: torch.dtype) -> VirtualTypedStorage:
        return cls(untyped._host, untyped._block, untyped.device, dtype)

    def _values(self) -> torch.Tensor:
        self._check_values("TypedStorage[...]")
        with torch_private.host_only():
            return torch.empty((0,), dtype=self.dtype).set_(self._host)

    def on_host(self) -> Any:
        return torch.storage.TypedStorage(wrap_storage=self._host, dtype=self.dtype, _internal=True)

    def _new_shared(self, size: int, *, device: Any = None) -> Any:
        """Return a storage of `size` elements, in which DataLoader's workers collate batches."""
        place = CPU if device is None else meant_device(device)
        if place.type != "cuda":
            raise cuda_errors.unsupported(f"TypedStorage._new_shared() on {place}", "Name the tensor's own device.")
        size_bytes = size * self.dtype.itemsize
        memory = active_machine().home(place).memory
        memory.of_thread.writer = None
        block = Allocation(memory, size_bytes)
        host = torch_private.new_storage(torch.UntypedStorage, size_bytes, device=active_machine().host_device)
        return VirtualTypedStorage(host, block, place, self.dtype)

    def _copy_on(self, device: torch.device, name: str) -> VirtualStorage:
        return VirtualTypedStorage.of(super()._copy_on(device, name), self.dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise cuda_errors.unsupported("pickling a TypedStorage", "Save the tensor.")

    def untyped(self) -> VirtualStorage:
        return VirtualStorage(self._host, self._block, self.device)

    def size(self) -> int:
        return self._host.nbytes() // self.dtype.itemsize

    def __len__(self) -> int:
        return self.size()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def type(self) -> str:
        with torch_private.host_only():
            kind = torch.empty((0,), dtype=self.dtype).type()
        return kind.replace("torch.", "torch.cuda.", 1).replace("Tensor", "Storage")

    def cpu(self) -> Any:
        with torch_private.host_only():
            return torch.storage.TypedStorage(wrap_storage=super().cpu(), dtype=self.dtype, _internal=True)

    def tolist(self) -> list[Any]:
        super().cpu()
        with torch_private.host_only():
            return self._values().tolist()

    def __getitem__(self, place: Any) -> Any:
        with torch_private.host_only():
            return self._values()[place].tolist()

    def __repr__(self) -> str:
        if self._host.nbytes() and not active_machine().values:
            return super().__repr__()
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"


def new_wrapped_storage(self: torch.TypedStorage, untyped: Any) -> Any:
    """Replace `TypedStorage._new_wrapped_storage`, which `TypedStorage.cuda` calls."""
    if isinstance(untyped, VirtualStorage):
        return VirtualTypedStorage.of(untyped, self.dtype)
    return torch_private.wrapped_storage(self, untyped)


# For `print(type(x))` and error messages, as with tensors.
VirtualStorage.__module__ = VirtualTypedStorage.__module__ = "torch.storage"
VirtualStorage.__name__ = VirtualStorage.__qualname__ = "UntypedStorage"
VirtualTypedStorage.__name__ = VirtualTypedStorage.__qualname__ = "TypedStorage"
