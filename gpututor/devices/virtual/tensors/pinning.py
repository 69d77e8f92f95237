"""Calls that make page-locked CPU tensors, or ask whether one is: C++ thinks that there is no GPU to lock pages for."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors, work
from gpututor.devices.virtual.machine import active, meant_device
from gpututor.devices.virtual.tensors.moves import pin, pinned


def pin_memory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.pin_memory()`."""
    tensor = args[0]
    machine = active()
    if not machine.gpus and not machine.backends & {"mps", "xpu"}:
        raise errors.no_gpus()
    if pinned(tensor):
        return tensor
    began = machine.clock.host.now
    with torch.no_grad():
        copy = tensor.detach().clone()
    work.pinning.copied(machine, began, copy.nbytes)
    pin(copy)
    return copy


def is_pinned(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`tensor.is_pinned()`."""
    return pinned(args[0])


def make_pinned(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any) -> Any:
    """A tensor that was asked for with `pin_memory=True`, on `device` as a person wrote it; None is the CPU.

    Raises `RuntimeError` for one on a GPU.
    """
    if device is not None and meant_device(device).type == "cuda":
        raise errors.cannot_pin("torch.cuda.FloatTensor")
    made = func(*args, **kwargs)
    pin(made)
    return made
