"""The storage of a virtual tensor, as far as Python sees it."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors


class VirtualStorage:
    """What `untyped_storage()` of a virtual tensor gives: enough to compare and measure storages."""

    def __init__(self, tensor: Any) -> None:
        self._host: torch.UntypedStorage = tensor._host.untyped_storage()
        self.device = tensor._device
        self._cdata = self._host._cdata

    def data_ptr(self) -> int:
        return self._host.data_ptr()

    def nbytes(self) -> int:
        return self._host.nbytes()

    def size(self) -> int:
        return self._host.nbytes()

    def __len__(self) -> int:
        return self._host.nbytes()

    @property
    def is_cuda(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        raise errors.unsupported(f"UntypedStorage.{name}")
