"""Prices of kernels and their floating-point operations, cached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.clock.timeline import WHOLE
from gpututor.devices.virtual.cost import cpu, kernel
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.cost.matrices import contraction_flops
from gpututor.devices.virtual.cost.memory_traffic import Tensor as Described
from gpututor.devices.virtual.operator_facts import kind_of
from gpututor.devices.virtual.operator_registry import Operator
from gpututor.hardware.gpus import GpuSpec
from gpututor.trace.events import compute_dtype

aten = torch.ops.aten

_TWINS = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_fused_attention_overrideable: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: aten._scaled_dot_product_flash_attention_backward,
    aten._int_mm: aten.mm,
    aten._addmm_activation: aten.addmm,
}
"""Operators that compute what another one does, which has a formula."""


def _convolution_forward(image: Any, weight: Any, *_: Any, out_val: Any = None, **__: Any) -> int:
    """Of operators with other arguments, never transposed: image (N, C, ...), weight (O, C/groups, ...)."""
    return int(2 * out_val.numel() * weight[0].numel())


def _vector_product(*tensors: Any, out_val: Any = None, **__: Any) -> int:
    """Of a matrix and a vector, or of two vectors: each element of the larger is used once."""
    return 2 * max(one.numel() for one in tensors if isinstance(one, torch.Tensor))


def _batches_added(_: Any, left: Any, right: Any, *__: Any, **___: Any) -> int:
    return int(2 * left.numel() * right.shape[-1])


def _whatever_comes_out(packet: Any) -> Callable[..., Any]:
    """The formula of a product whose `out_dtype`, which it does not know, stands among the arguments."""
    formula = flop_registry[packet]

    def count(*args: Any, **kwargs: Any) -> Any:
        return formula(*args[:-1] if type(args[-1]) is torch.dtype else args, **kwargs)

    return count


_FORMULAS = {
    **flop_registry,
    **{packet: _whatever_comes_out(packet) for packet in (aten.addmm, aten.bmm, aten.baddbmm)},
    **{twin: flop_registry[other] for twin, other in _TWINS.items() if other in flop_registry},
    aten.mkldnn_convolution: _convolution_forward,
    aten._slow_conv2d_forward: _convolution_forward,
    aten.slow_conv3d_forward: _convolution_forward,
    aten._conv_depthwise2d: _convolution_forward,
    aten.conv_depthwise3d: _convolution_forward,
    aten.mv: _vector_product,
    aten.addmv: _vector_product,
    aten.dot: _vector_product,
    aten.vdot: _vector_product,
    aten.addbmm: _batches_added,
}


def flops_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, out: Any) -> float:
    """FLOPs of `func(*args, **kwargs)`, which returned `out`; 0 for an operator without a formula, or odd shapes.

    `func` is an operator's overload. Tensors may be of any device, as only their shapes are read. Never raises.
    """
    formula = _FORMULAS.get(getattr(func, "overloadpacket", None))
    if formula is None:
        return _of_contraction(func, args, out)
    try:
        found = float(formula(*args, **(kwargs or {}), out_val=out))
    # The formulas are another project's, and raise whatever they like at shapes that they do not expect.
    except Exception:
        return 0.0
    return found if isfinite(found) and found > 0 else 0.0


def _of_contraction(func: Any, args: tuple[Any, ...], out: Any) -> float:
    """Of matrix products in disguise and of distances, by the clock's own formulas."""
    packet = getattr(func, "overloadpacket", None)
    if packet is None or kind_of(packet.__name__) != "contraction":
        return 0.0
    shapes = [[(tuple(one.shape), "") for one in group if isinstance(one, torch.Tensor)] for group in (args, [out])]
    try:
        return contraction_flops(packet.__name__, *shapes)
    except (IndexError, ValueError):
        return 0.0


_MANY = 12
"""From so many tensors on, as in an optimiser's lists, a price is known by their number and bytes."""
_KEPT = 100_000
"""Prices, before they are forgotten and found anew."""


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
        key += (torch_private.matmul_precision(), torch_private.convolution_precision())
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
    price = kernel.price(
        spec,
        op.name,
        read,
        written,
        flops,
        tf32=torch_private.matmul_precision() == "tf32",
        convolution_tf32=torch_private.convolution_precision() == "tf32",
        dim=_dim(call) if op.scans else -1,
    )
    host = round(spec.launch_s * kernel.launches(op.name, tensors=len(inputs)) * 1e9)
    duration, fill = round(price.seconds * 1e9), round(price.fill * WHOLE)
    return _keep(key, Cost(duration, fill, host, price.flops or flops, _ran_in(read, written)))


def _ran_in(read: Sequence[Described], written: Sequence[Described]) -> str:
    return compute_dtype([dtype for _, dtype in read], [dtype for _, dtype in written])


def cost_of_bytes(spec: GpuSpec, name: str, size_bytes: int) -> Cost:
    """The cost of a kernel that reads or writes so many bytes, and computes next to nothing."""
    key = (spec.name, name, size_bytes)
    found = _known.get(key)
    if found is not None:
        return found
    price = kernel.price(spec, name, [((size_bytes,), "uint8")], [])
    launch = round(spec.launch_s * kernel.launches(name) * 1e9)
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
