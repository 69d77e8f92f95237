"""Gradients on the wrong device: the engine does not compare the devices of wrappers, so this does, in its words."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.machine import python_device

Tensor = torch.Tensor

_real_custom_backward: Any = torch.autograd.function.BackwardCFunction.apply


def seen_device(device: torch.device) -> torch.device:
    """What Python calls a device that C++ named: the tensors that torch.func wraps say C++'s name."""
    return python_device(device) if device.type == "meta" and device.index is not None else device


def check_gradients(roots: Any, gradients: Any) -> None:
    """The gradients that a backward pass starts from; raises `RuntimeError`."""
    roots = [roots] if isinstance(roots, Tensor) else list(roots)
    gradients = [gradients] if isinstance(gradients, Tensor) or gradients is None else list(gradients)
    for position, (root, gradient) in enumerate(zip(roots, gradients, strict=False)):
        if isinstance(gradient, Tensor) and isinstance(root, Tensor):
            expected, got = seen_device(root.device), seen_device(gradient.device)
            if expected != got:
                raise errors.invalid_gradient("torch::autograd::GraphRoot", position, expected, got)


def custom_backward(self: Any, *gradients: Any) -> Any:
    """Stands in for what runs the `backward` of a custom Function: what it returns has to be where the input was."""
    found = _real_custom_backward(self, *gradients)
    results = found if isinstance(found, tuple) else (found,)
    edges = self.next_functions
    if len(results) != len(edges):
        # Arguments that are no tensors have no edge, and None as their gradient.
        results = tuple(one for one in results if one is not None)
    pairs = zip(results, edges, strict=True) if len(results) == len(edges) else ()
    for position, (gradient, (node, place)) in enumerate(pairs):
        # The engine moves a gradient without dimensions by itself.
        if node is None or not isinstance(gradient, Tensor) or gradient.dim() == 0:
            continue
        expected, got = seen_device(node._input_metadata[place].device), seen_device(gradient.device)
        if expected != got:
            raise errors.invalid_gradient(self.name(), position, expected, got)
    return found


def device_attribute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.device`, also inside `vmap` and `grad`."""
    return seen_device(func(*args))


def _is_on_gpu(tensor: Tensor) -> bool:
    device = tensor.device
    return device.type == "cuda" or (device.type == "meta" and device.index is not None)


def is_cuda_attribute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.is_cuda`, also inside `vmap` and `grad`."""
    return _is_on_gpu(args[0])


def is_meta_attribute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.is_meta`, also inside `vmap` and `grad`."""
    return func(*args) and not _is_on_gpu(args[0])


def get_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`tensor.get_device()`, also inside `vmap` and `grad`."""
    device = seen_device(args[0].device)
    return device.index if device.type == "cuda" else func(*args, **kwargs)
