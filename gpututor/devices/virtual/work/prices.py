"""What operators cost, found once for each combination of shapes and types, in the clock's whole nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.clock import cost, cpu
from gpututor.devices.virtual.clock.shapes import Tensor as Described
from gpututor.devices.virtual.clock.timeline import WHOLE
from gpututor.devices.virtual.operators.flops import flops_of
from gpututor.devices.virtual.operators.overloads import Operator
from gpututor.devices.virtual.specs import GpuSpec
from gpututor.trace.dtypes import ran_in

_MANY = 12
"""From so many tensors on, as in an optimiser's lists, a price is known by their number and bytes."""
_KEPT = 100_000
"""Prices, before they are forgotten and found anew."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One operator on tensors of some shapes and types."""

    duration: int
    """Of its kernels, in nanoseconds."""
    fill: int
    """The share of the GPU that they need, in millionths."""
    host: int
    """What the launch costs the host, in nanoseconds; on the CPU all of it."""
    flops: float
    dtype: str = ""
    """The floating type that they run in; see `gpututor.trace.dtypes.ran_in`."""


_known: dict[Any, Cost] = {}


def described(tensors: Iterable[torch.Tensor]) -> list[Described]:
    """Shapes and types, as the clock's formulas want them."""
    return [(tuple(one.shape), str(one.dtype)[6:]) for one in tensors]


def tensors_of(out: Any) -> Sequence[torch.Tensor]:
    """The tensors in what an operator was given or gave; nested ones, which have no shape, are left out."""
    if type(out) is torch.Tensor and not out.is_nested:
        return (out,)
    if type(out) is list or type(out) is tuple:
        return [one for part in out for one in tensors_of(part)]
    return (out,) if isinstance(out, torch.Tensor) and not out.is_nested else ()


def cost_on_gpu(spec: GpuSpec, op: Operator, tensors: Sequence[Any], size_bytes: int, out: Any, call: Any) -> Cost:
    """The cost of an operator on a GPU.

    `tensors` are its virtual inputs, `size_bytes` theirs, `out` what the CPU gave; `call` is what the operator was
    called with on the CPU, as (arguments, keywords), for its FLOPs.
    """
    key: list[Any] = [spec.name, op.name]
    if len(tensors) >= _MANY:
        key += (len(tensors), size_bytes, tensors[0]._host.dtype)
    else:
        for one in tensors:
            host = one._host
            key += (host.shape, host.dtype)
        key.append(None)
        if type(out) is torch.Tensor:
            key += (out.shape, out.dtype)
        else:
            for one in tensors_of(out):
                key += (one.shape, one.dtype)
    if op.multiplies:
        key += (private.matmul_precision(), private.convolution_precision())
    elif op.scans:
        key.append(_dim(call))
    frozen = tuple(key)
    return _known.get(frozen) or _find_on_gpu(frozen, spec, op, [one._host for one in tensors], out, call)


def _dim(call: Any) -> int:
    """The dimension that a scan goes along: its second argument."""
    args, kwargs = call
    found = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    return found if type(found) is int else -1


def _find_on_gpu(key: Any, spec: GpuSpec, op: Operator, inputs: Sequence[Any], out: Any, call: Any) -> Cost:
    flops = flops_of(op.func, call[0], call[1], out) if op.multiplies else 0.0
    # What returns nothing, as an optimiser's lists, writes to what it was given.
    read, written = described(inputs), described(tensors_of(out) or op.written_among(*call))
    price = cost.price(
        spec,
        op.name,
        read,
        written,
        flops,
        tf32=private.matmul_precision() == "tf32",
        convolution_tf32=private.convolution_precision() == "tf32",
        dim=_dim(call) if op.scans else -1,
    )
    host = round(spec.launch_s * cost.launches(op.name, tensors=len(inputs)) * 1e9)
    duration, fill = round(price.seconds * 1e9), round(price.fill * WHOLE)
    return _keep(key, Cost(duration, fill, host, price.flops or flops, _ran_in(read, written)))


def _ran_in(read: Sequence[Described], written: Sequence[Described]) -> str:
    return ran_in([dtype for _, dtype in read], [dtype for _, dtype in written])


def cost_of_bytes(spec: GpuSpec, name: str, size_bytes: int) -> Cost:
    """The cost of a kernel that reads or writes so many bytes, and computes next to nothing."""
    key = (spec.name, name, size_bytes)
    found = _known.get(key)
    if found is not None:
        return found
    price = cost.price(spec, name, [((size_bytes,), "uint8")], [])
    launch = round(spec.launch_s * cost.launches(name) * 1e9)
    return _keep(key, Cost(round(price.seconds * 1e9), round(price.fill * WHOLE), launch, 0.0))


def cost_on_cpu(op: Operator, inputs: Sequence[torch.Tensor], out: Any, call: Any) -> Cost:
    """The cost of an operator on the machine's CPU: all of it is the host's."""
    outputs = tensors_of(out)
    key = ("cpu", op.name, *[(one.shape, one.dtype) for one in (*inputs, *outputs)], len(inputs))
    found = _known.get(key)
    if found is not None:
        return found
    flops = flops_of(op.func, call[0], call[1], out) if op.multiplies else 0.0
    read, written = described(inputs), described(outputs)
    seconds = cpu.cpu_price_s(cpu.cpu_spec(), op.name, read, written, flops)
    return _keep(key, Cost(0, 0, round(seconds * 1e9), flops, _ran_in(read, written)))


def cost_of_host_bytes(name: str, size_bytes: int) -> Cost:
    """The cost of reading and writing so many bytes together in the host's memory."""
    half: list[Described] = [((size_bytes // 2,), "uint8")]
    return Cost(0, 0, round(cpu.cpu_price_s(cpu.cpu_spec(), name, half, half) * 1e9), 0.0)


def _keep(key: Any, found: Cost) -> Cost:
    if len(_known) >= _KEPT:
        _known.clear()
    _known[key] = found
    return found
