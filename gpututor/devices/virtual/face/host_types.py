"""`torch.FloatTensor` and its kin: C++ names a virtual tensor's device in its own way, where nothing translates."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.machine import CPU
from gpututor.devices.virtual.tensors.storage import VirtualStorage


class HostTensorType(type):
    """The class of the stand-ins: each is as good as the type that it stands for, and equal to it."""

    real: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], VirtualStorage):
            raise errors.wrong_storage(CPU, args[0].device)
        try:
            return cls.real(*args, **kwargs)
        except (TypeError, RuntimeError) as error:
            error.args = (errors.in_cudas_words(str(error)),)
            raise

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real

    def __hash__(cls) -> int:
        return hash(cls.real)


_KINDS = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")
HOST_TENSOR_TYPES = {
    f"{kind}Tensor": HostTensorType(
        f"{kind}Tensor", (), {"__module__": "torch", "real": getattr(torch, f"{kind}Tensor")}
    )
    for kind in _KINDS
}
