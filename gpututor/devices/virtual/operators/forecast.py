"""How large a result would be, before the host's memory is taken for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gpututor.devices.virtual.memory.allocator import DeviceMemory
from gpututor.devices.virtual.operators.inputs import Inputs, bytes_of
from gpututor.devices.virtual.operators.overloads import Operator

Tensor = torch.Tensor


WIDEST = 16
"""Bytes of the widest element, complex128: a result of as many elements as the inputs can be that much larger."""


def could_grow(op: Operator, inputs: Inputs, memory: DeviceMemory) -> bool:
    """Whether the results may not fit, by bounds that are cheap: else it is worth working out what they are.

    A result has at most as many elements as its two largest inputs multiplied, but for operators whose sizes come from
    numbers ("always"); those that work element by element on equal shapes give no more than they get.
    """
    if op.growth == "always":
        return True
    room = memory.room
    if inputs.size_bytes * WIDEST > room:
        return True
    wrappers = inputs.wrappers
    if op.growth == "same" or len(wrappers) < 2:
        return False
    hosts = [wrapper._host for wrapper in wrappers]
    if op.growth == "pointwise" and all(host.shape == hosts[0].shape for host in hosts):
        return False
    *_, second, first = sorted(host.numel() for host in hosts)
    return WIDEST * first * second > room


def could_fill(args: tuple[Any, ...], memory: DeviceMemory) -> bool:
    """Whether a factory's result may be too large; a cheap bound where its first argument is a size."""
    if not args or type(args[0]) not in (list, torch.Size):
        return True
    widest = WIDEST * math.prod(length for length in args[0] if type(length) is int)
    return widest > memory.room


def _shape_only(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    return [_shape_only(one) for one in value] if type(value) in (list, tuple) else value


def _counts(values: Tensor, weights: Tensor | None = None, minlength: int = 0) -> list[int]:
    return [8 * max(minlength, int(values.max()) + 1 if values.numel() else 0)]


# What the values decide, which PyTorch cannot tell from shapes; CUDA reads them back to the host too.
_BY_VALUES: dict[Any, Callable[..., list[int]]] = {
    torch.ops.aten.bincount.default: _counts,
    torch.ops.aten.repeat_interleave.Tensor: lambda repeats, **options: [8 * int(repeats.sum())],
}
_known: dict[Any, list[int]] = {}
_KNOWN_AT_MOST = 4096


def _outline(value: Any) -> Any:
    """What of an argument the size of a result can depend on."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    return tuple(_outline(one) for one in value) if type(value) in (list, tuple) else (type(value), value)


def forecast(func: Any, hosts: Any, named: dict[str, Any]) -> list[int]:
    """The bytes of each tensor that `func` would make, without making it; none where PyTorch cannot tell.

    PyTorch works shapes out in Python, which takes as long as ten small operators: what was asked once is remembered.
    """
    options = {name: value for name, value in named.items() if name != "generator"}
    if func in _BY_VALUES:
        return _BY_VALUES[func](*hosts, **options)
    outline = id(func), _outline(hosts), tuple((name, _outline(value)) for name, value in options.items())
    found = _known.get(outline)
    if found is None:
        if len(_known) >= _KNOWN_AT_MOST:
            _known.clear()
        found = _known[outline] = _work_out(func, hosts, options)
    return found


def _work_out(func: Any, hosts: Any, options: dict[str, Any]) -> list[int]:
    on_meta = {name: _shape_only(value) for name, value in options.items()}
    if "device" in on_meta:
        on_meta["device"] = torch.device("meta")
    try:
        made = func(*[_shape_only(value) for value in hosts], **on_meta)
    except (NotImplementedError, RuntimeError, IndexError, TypeError, ValueError):
        # The operator itself will say what is wrong with its arguments, in its own words.
        return []
    return [bytes_of(one) for one in (made if type(made) in (list, tuple) else [made]) if isinstance(one, Tensor)]
