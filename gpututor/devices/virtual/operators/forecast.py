"""How large a result would be, before the host's memory is taken for it."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpututor.devices.virtual.memory.allocator import DeviceMemory
from gpututor.devices.virtual.operators.inputs import Inputs, bytes_of
from gpututor.devices.virtual.operators.overloads import Operator

Tensor = torch.Tensor


def could_grow(op: Operator, inputs: Inputs, memory: DeviceMemory) -> bool:
    """Whether the result may not fit, by a bound that is cheap: products and broadcasts of unlike shapes multiply."""
    if op.needs_forecast == "always":
        return True
    free = memory.room
    if inputs.size_bytes * 8 > free:
        return True
    wrappers = inputs.wrappers
    if len(wrappers) < 2 or (op.needs_forecast == "broadcast" and wrappers[0].size() == wrappers[1].size()):
        return False
    # The two factors of a product come last; a bias before them is no factor.
    return 8 * wrappers[-1].numel() * wrappers[-2].numel() > free


def could_fill(args: tuple[Any, ...], memory: DeviceMemory) -> bool:
    """Whether a factory's result may be too large; a cheap bound where its first argument is a size."""
    if not args or type(args[0]) not in (list, torch.Size):
        return True
    widest = 16 * math.prod(length for length in args[0] if type(length) is int)
    return widest > memory.room


def _shape_only(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return [_shape_only(one) for one in value] if type(value) in (list, tuple) else value


def forecast(func: Any, hosts: Any, named: dict[str, Any]) -> int:
    """The bytes of what `func` would make, without making it; 0 where PyTorch cannot tell."""
    on_meta = {name: _shape_only(value) for name, value in named.items() if name != "generator"}
    if "device" in on_meta:
        on_meta["device"] = torch.device("meta")
    try:
        return bytes_of(func(*[_shape_only(value) for value in hosts], **on_meta))
    except (NotImplementedError, RuntimeError, IndexError, TypeError, ValueError):
        # The operator itself will say what is wrong with its arguments, in its own words.
        return 0
