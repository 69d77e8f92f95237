"""Values of small constants on a machine without values: `torch.linspace(0, 1, 8, device="cuda")[3].item()`.

The storage of a constant has a shadow: a CPU storage with the values, shared by all views. Operators on tensors with
shadows are computed, so their results have shadows too. A write of unknown values removes the shadow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.machine import CPU, active_machine
from gpututor.devices.virtual.operator_registry import Operator

Tensor = torch.Tensor
LIMIT = 16_384
"""Elements of the largest tensor whose values are known."""
_SHADOW = "_shadow"
"""Attribute of a meta storage: its shadow."""
# fmt: off
_CONSTANTS = frozenset({
    "arange", "eye", "full", "full_like", "linspace", "logspace", "new_full", "new_ones", "new_zeros", "ones",
    "ones_like", "scalar_tensor", "tril_indices", "triu_indices", "zeros", "zeros_like",
})
# fmt: on
"""Operators whose results do not depend on the values of tensors."""


def values_of(host: Tensor) -> Tensor | None:
    """Return a CPU tensor with the values of `host`, which shares memory with other views; None if unknown."""
    if host.numel() > LIMIT or host.layout is not torch.strided:
        return None
    if not host.is_meta:
        return host
    storage = host.untyped_storage()
    shadow = getattr(storage, _SHADOW, None)
    if shadow is None or shadow.nbytes() != storage.nbytes() or host.is_conj() or host.is_neg():
        return None
    return torch.empty(0, dtype=host.dtype).set_(shadow, host.storage_offset(), host.size(), host.stride())


def remember(host: Tensor, values: Tensor) -> None:
    """Store the values of a new tensor without memory, if it is small."""
    storage = host.untyped_storage()
    if host.is_meta and host.numel() <= LIMIT and storage.nbytes() <= LIMIT * host.element_size():
        setattr(storage, _SHADOW, torch_private.new_storage(torch.UntypedStorage, storage.nbytes()))
        known = values_of(host)
        if known is not None:
            known.copy_(values)


def forget(host: Any) -> None:
    """Forget the values of a tensor and of its views, after a write of unknown values."""
    if isinstance(host, Tensor) and host.is_meta and host.numel() <= LIMIT:
        storage = host.untyped_storage()
        if hasattr(storage, _SHADOW):
            delattr(storage, _SHADOW)


def remember_copy(target: Tensor, source: Tensor) -> None:
    """Give a new tensor the values of `source`, if they are known."""
    values = values_of(source)
    if values is not None and active_machine().capture is None:
        remember(target, values)


def follow_copy(target: Tensor, source: Tensor) -> None:
    """Update the values of `target` after a copy in place; forget them if the values of `source` are unknown."""
    known, values = values_of(target), values_of(source)
    if known is None or values is None or active_machine().capture is not None:
        forget(target)
    elif target.is_meta:
        known.copy_(values)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) is list or type(value) is tuple:
            yield from _tensors(value)


def follow(op: Operator, hosts: Any, kwargs: dict[str, Any], out: Any) -> None:
    """Compute the values of an operator's results `out`, if all values that it needs are known."""
    if not op.is_kernel:
        return
    computed = _computed(op, hosts, kwargs, out)
    if computed is None:
        for host in _written(op, hosts, kwargs):
            forget(host)
        return
    given = {torch_private.storage_id(host) for host in _tensors((hosts, *kwargs.values()))}
    for new, values in zip(_tensors((out,)), _tensors((computed,)), strict=False):
        if torch_private.storage_id(new) not in given:
            remember(new, values)


def _written(op: Operator, hosts: Any, kwargs: dict[str, Any]) -> Iterator[Any]:
    yield from op.written_among(hosts, kwargs)
    yield from (hosts[place] for place in op.facts.writes if place < len(hosts))


def _computed(op: Operator, hosts: Any, kwargs: dict[str, Any], out: Any) -> Any:
    """Return the operator's results on the CPU, written tensors included; None if they are unknown."""
    constant = op.func.overloadpacket.__name__ in _CONSTANTS
    if op.random or active_machine().capture is not None or any(new.numel() > LIMIT for new in _tensors((out,))):
        return None
    if not constant and not _knows(hosts, kwargs):
        return None
    args = _with_values(hosts, constant)
    named = {name: _with_values(value, constant) for name, value in kwargs.items() if name != "generator"}
    if named.get("device") is not None:
        named["device"] = CPU
    try:
        return op.call(*args, **named)
    except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError):
        return None


def _knows(hosts: Any, kwargs: dict[str, Any]) -> bool:
    """Return True if there are tensors among the arguments, and the values of all of them are known."""
    tensors = list(_tensors((hosts, *kwargs.values())))
    return bool(tensors) and all(values_of(host) is not None for host in tensors)


def _with_values(value: Any, constant: bool) -> Any:
    """Return `value` with CPU tensors in place of tensors without values; with any values for a constant."""
    if isinstance(value, Tensor):
        if constant and value.is_meta:
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
        return values_of(value)
    if type(value) is list or type(value) is tuple:
        return type(value)(_with_values(part, constant) for part in value)
    return value
