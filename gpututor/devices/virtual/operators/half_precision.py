"""Half precision: CUDA's kernels compute in single precision and round once, at the end.

For some operators the CPU has no half-precision kernel. Others accumulate or round intermediate results in half
precision on the CPU. `operators.toml` marks both kinds (`half_on_cuda`, `half_in_single`). Here these operators run in
single precision, and their results are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from gpututor.devices.virtual.operator_facts import computed_in_single, facts_of
from gpututor.devices.virtual.operator_registry import shortest_call

Tensor = torch.Tensor
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
_HALVES = (torch.float16, torch.bfloat16)
_aten = torch.ops.aten


def in_single(call: Callable[..., Any], func: Any, hosts: Any, named: dict[str, Any]) -> Any:
    """Compute `func` by `call` in single precision, and round the results, as CUDA's kernels do."""
    values = (*hosts, *named.values())
    wanted = next((value for value in values if isinstance(value, torch.dtype)), None)
    narrow = wanted or next(value.dtype for value in values if _is_narrow(value))
    if func.overloadpacket.__name__.startswith("_fft"):
        _check_half_transform(func, hosts, named)
    widened = [_widened(host) for host in hosts]
    wide_named = {name: _widened(value) for name, value in named.items()}
    out = call(*widened, **wide_named)
    written = {}
    undeclared = facts_of(func._schema.name).writes
    for place, argument in enumerate(func._schema.arguments):
        if place not in undeclared and (argument.alias_info is None or not argument.alias_info.is_write):
            continue
        by_place = place < len(hosts)
        host = hosts[place] if by_place else named.get(argument.name)
        wide = widened[place] if by_place else wide_named.get(argument.name)
        if wide is not None and host is not None and wide is not host:
            written[id(wide)] = host.resize_(wide.shape).copy_(wide) if argument.kwarg_only else host.copy_(wide)
    if isinstance(out, Tensor):
        return written.get(id(out), _narrowed(out, narrow))
    return type(out)(written.get(id(wide), _narrowed(wide, narrow)) for wide in out)


def half_calls(calls: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Return functions for the operators whose kernels CUDA computes in single precision, given those of `calls`."""
    return {func: _call_in_single(func, calls.get(func) or shortest_call(func)) for func in _computed_in_single()}


@cache
def _computed_in_single() -> tuple[Any, ...]:
    packets = [
        getattr(_aten, name + ending)
        for name in computed_in_single()
        for ending in ("", "_")
        if hasattr(_aten, name + ending)
    ]
    return tuple(getattr(packet, overload) for packet in packets for overload in packet.overloads())


@cache
def _call_in_single(func: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    keeps = [place for place, argument in enumerate(func._schema.arguments) if argument.name == "half_to_float"]

    def compute(*args: Any, **kwargs: Any) -> Any:
        if _all_halves(args, kwargs) and not any(args[place] for place in keeps):
            return in_single(call, func, args, kwargs)
        return call(*args, **kwargs)

    return compute


def _all_halves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if all floating tensors are halves: kernels for mixed types compute in single precision anyway."""
    has_halves = False
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            dtype = value.dtype
            if dtype in _HALVES:
                has_halves = True
            elif dtype.is_floating_point or dtype.is_complex:
                return False
    return has_halves


def _is_narrow(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in _WIDER


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    return value.to(_WIDER[value.dtype]) if _is_narrow(value) else value


def _narrowed(value: Any, narrow: torch.dtype) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.dtype is torch.complex64:
        return value.to(torch.complex32)
    if value.dtype is torch.float32:
        return value.to(torch.float16 if narrow is torch.complex32 else narrow)
    return value


def _check_half_transform(func: Any, hosts: Any, named: dict[str, Any]) -> None:
    """Raise cuFFT's error for sizes that are not powers of two (aten/src/ATen/native/cuda/CuFFTPlanCache.h)."""
    tensor, dims = hosts[0], hosts[1]
    sizes = [tensor.size(dim) for dim in dims]
    if func.overloadpacket.__name__ == "_fft_c2r":
        sizes[-1] = hosts[3]
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(
            "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, "
            f"but got a signal size of{sizes}"
        )
