"""Costs of operators from their tensors, cached, and their FLOPs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.clock.timeline import WHOLE
from gpututor.devices.virtual.cost import cpu, kernel, recurrent
from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.devices.virtual.cost.kernel import Cost
from gpututor.devices.virtual.cost.matrices import contraction_flops
from gpututor.devices.virtual.cost.memory_traffic import Tensor as Description
from gpututor.devices.virtual.operator_facts import kind_of
from gpututor.devices.virtual.operator_registry import Operator
from gpututor.hardware.gpus import GpuSpec
from gpututor.trace.events import compute_dtype

aten = torch.ops.aten
flop_registry = torch_private.flop_registry

_SAME_FORMULA = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_fused_attention_overrideable: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: aten._scaled_dot_product_flash_attention_backward,
    aten._int_mm: aten.mm,
    aten._addmm_activation: aten.addmm,
}
"""Operators without a FLOP formula, each with the operator whose formula it uses."""


def _convolution_forward(image: Any, weight: Any, *_: Any, out_val: Any = None, **__: Any) -> int:
    """Return the FLOPs of a convolution that is not transposed; the weight is (O, C/groups, ...)."""
    return int(2 * out_val.numel() * weight[0].numel())


def _vector_product(*tensors: Any, out_val: Any = None, **__: Any) -> int:
    """Return the FLOPs of a product with a vector, which uses each element of the larger factor once."""
    return 2 * max(tensor.numel() for tensor in tensors if isinstance(tensor, torch.Tensor))


def _without_out_dtype(packet: Any) -> Callable[..., Any]:
    """Return torch's formula without the operator's argument `out_dtype`, which the formula does not accept."""
    formula = flop_registry[packet]

    def count(*args: Any, **kwargs: Any) -> Any:
        return formula(*args[:-1] if type(args[-1]) is torch.dtype else args, **kwargs)

    return count


_FORMULAS = {
    **flop_registry,
    **{packet: _without_out_dtype(packet) for packet in (aten.addmm, aten.bmm, aten.baddbmm)},
    **{packet: flop_registry[other] for packet, other in _SAME_FORMULA.items() if other in flop_registry},
    aten.mkldnn_convolution: _convolution_forward,
    aten._slow_conv2d_forward: _convolution_forward,
    aten.slow_conv3d_forward: _convolution_forward,
    aten._conv_depthwise2d: _convolution_forward,
    aten.conv_depthwise3d: _convolution_forward,
    aten.mv: _vector_product,
    aten.addmv: _vector_product,
    aten.dot: _vector_product,
    aten.vdot: _vector_product,
    aten.addbmm: lambda _, left, right, *__, **___: int(2 * left.numel() * right.shape[-1]),
}


def flops_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, out: Any) -> float:
    """Return the FLOPs of `func(*args, **kwargs) == out`, by torch.utils.flop_counter or `cost.matrices`.

    `func` is an operator's overload. Tensors may be on any device: only their shapes are read. Return 0 without a
    formula or for unexpected shapes; never raise.
    """
    packet = getattr(func, "overloadpacket", None)
    formula = _FORMULAS.get(packet)
    try:
        if formula is not None:
            flops = float(formula(*args, **(kwargs or {}), out_val=out))
            return flops if isfinite(flops) and flops > 0 else 0.0
        if packet is None or kind_of(packet.__name__) != "contraction":
            return 0.0
        groups = (args, [out])
        shapes = [[(tuple(value.shape), "") for value in group if isinstance(value, torch.Tensor)] for group in groups]
        return contraction_flops(packet.__name__, *shapes)
    # torch's formulas raise various errors for unexpected shapes.
    except Exception:
        return 0.0


_MANY = 12
"""Number of tensors from which the cache's key contains only their count and bytes, as for an optimizer's lists."""
_CACHE_SIZE = 100_000
_known: dict[Any, Cost] = {}


def describe(tensors: Iterable[torch.Tensor]) -> list[Description]:
    return [(tuple(tensor.shape), str(tensor.dtype)[6:]) for tensor in tensors]


def tensors_of(out: Any) -> Sequence[torch.Tensor]:
    """Return the tensors among an operator's arguments or results, without nested tensors, which have no shape."""
    if type(out) is torch.Tensor and not out.is_nested:
        return (out,)
    if type(out) is list or type(out) is tuple:
        return [tensor for part in out for tensor in tensors_of(part)]
    return (out,) if isinstance(out, torch.Tensor) and not out.is_nested else ()


def cost_on_gpu(spec: GpuSpec, op: Operator, tensors: Sequence[Any], size_bytes: int, out: Any, call: Any) -> Cost:
    """Return the cost of an operator on a GPU.

    `tensors` are its virtual inputs, of `size_bytes` in all. `out` is its result on the CPU. `call` has its (arguments,
    keywords) on the CPU, which determine the FLOPs.
    """
    key: list[Any] = [spec.name, op.name]
    if len(tensors) >= _MANY:
        key += (len(tensors), size_bytes, tensors[0]._host.dtype)
    else:
        for tensor in tensors:
            host = tensor._host
            key += (host.shape, host.dtype)
        key.append(None)
        if type(out) is torch.Tensor:
            key += (out.shape, out.dtype)
        else:
            for result in tensors_of(out):
                key += (result.shape, result.dtype)
    if op.multiplies:
        key += (torch_private.matmul_precision(), torch_private.convolution_precision())
        if op.attends:
            key.append(_is_causal(op, call))
        else:
            key.append(_layout(op, [tensor._host for tensor in tensors]))
    elif op.scans:
        key.append(_dim(call))
    elif op.recurs:
        layers = _recurrent_layers(op, call)
        key += (layers, torch_private.convolution_precision())
    frozen = tuple(key)
    known = _known.get(frozen)
    if known is not None:
        return known
    hosts = [tensor._host for tensor in tensors]
    return _compute_on_gpu(frozen, spec, op, hosts, out, call, _layout(op, hosts))


def _dim(call: Any) -> int:
    args, kwargs = call
    dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    return dim if type(dim) is int else -1


def _layout(op: Operator, tensors: Sequence[torch.Tensor]) -> kernel.Layout:
    """Return the layout in memory of the images of a convolution, or of the first factor of a product."""
    if op.convolves:
        image = tensors[0]
        return "channels_last" if image.dim() == 4 and image.shape[1] > 1 and image.stride(1) == 1 else ""
    if not op.multiplies or len(tensors) < 2:
        return ""
    first = tensors[-2]
    return "transposed" if first.dim() > 1 and first.stride(-1) > first.stride(-2) == 1 else ""


def _is_causal(op: Operator, call: Any) -> bool:
    args, kwargs = call
    return bool((dict(zip(op.parameters, args, strict=False)) | kwargs).get("is_causal", False))


def _recurrent_layers(op: Operator, call: Any) -> recurrent.RecurrentLayers:
    """Return the sizes of a call of `_cudnn_rnn` or its backward operator."""
    args, kwargs = call
    given = dict(zip(op.parameters, args, strict=False)) | kwargs
    data, lengths = given["input"], given["batch_sizes"]
    features = data.shape[-1]
    rows = data.numel() // max(features, 1)
    steps = len(lengths) or data.shape[1 if given["batch_first"] else 0]
    packed = len(set(lengths)) > 1
    sizes = (given["mode"], steps, rows, features, given["hidden_size"], given["proj_size"], given["num_layers"])
    return recurrent.RecurrentLayers(*sizes, 1 + given["bidirectional"], str(data.dtype)[6:], packed)


def _compute_on_gpu(
    key: Any, spec: GpuSpec, op: Operator, inputs: Sequence[Any], out: Any, call: Any, layout: kernel.Layout
) -> Cost:
    flops = flops_of(op.func, call[0], call[1], out) if op.multiplies else 0.0
    # An operator without results, as on an optimizer's lists, writes to its arguments.
    results = tensors_of(out) or list(op.written_among(*call))
    # Results without elements are placeholders.
    read, written = describe(inputs), describe([result for result in results if result.numel()] or results)
    layers = _recurrent_layers(op, call) if op.recurs else None
    price = kernel.price(
        spec,
        op.name,
        read,
        written,
        flops,
        tf32=torch_private.matmul_precision() == "tf32",
        convolution_tf32=torch_private.convolution_precision() == "tf32",
        dim=_dim(call) if op.scans else -1,
        layers=layers,
        causal=op.attends and _is_causal(op, call),
        layout=layout,
    )
    launches, after = kernel.launches(op.name, tensors=len(inputs)), 0.0
    if layers is not None:
        launches, after = recurrent.host_launches(calibrated(spec), layers, "backward" in op.name)
    host, host_after = round(spec.launch_s * launches * 1e9), round(spec.launch_s * after * 1e9)
    duration, fill = round(price.seconds * 1e9), round(price.fill * WHOLE)
    return _store(key, Cost(duration, fill, host, price.flops or flops, _dtype(read, written), host_after))


def _dtype(read: Sequence[Description], written: Sequence[Description]) -> str:
    return compute_dtype([dtype for _, dtype in read], [dtype for _, dtype in written])


def cost_of_call(
    spec: GpuSpec, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, channels_last: bool
) -> Cost:
    """Return the cost of `op(*args, **kwargs) == out` on a GPU; tensors may be on any device, without values."""
    inputs = [value for value in torch_private.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    layout = "channels_last" if channels_last else _layout(op, inputs)
    return _compute_on_gpu(None, spec, op, inputs, out, (args, kwargs), layout)


def cost_of_bytes(spec: GpuSpec, name: str, size_bytes: int) -> Cost:
    """Return the cost of a kernel that moves `size_bytes` and hardly computes."""
    key = (spec.name, name, size_bytes)
    cost = _known.get(key)
    if cost is not None:
        return cost
    price = kernel.price(spec, name, [((size_bytes,), "uint8")], [])
    launch = round(spec.launch_s * kernel.launches(name) * 1e9)
    return _store(key, Cost(round(price.seconds * 1e9), round(price.fill * WHOLE), launch, 0.0))


def cost_on_cpu(op: Operator, inputs: Sequence[torch.Tensor], out: Any, call: Any) -> Cost:
    """Return the cost of an operator on the machine's CPU: time of the host only."""
    outputs = tensors_of(out)
    key = ("cpu", op.name, *[(tensor.shape, tensor.dtype) for tensor in (*inputs, *outputs)], len(inputs))
    cost = _known.get(key)
    if cost is not None:
        return cost
    flops = flops_of(op.func, call[0], call[1], out) if op.multiplies else 0.0
    read, written = describe(inputs), describe(outputs)
    seconds = cpu.cpu_price_s(cpu.cpu_spec(), op.name, read, written, flops)
    return _store(key, Cost(0, 0, round(seconds * 1e9), flops, _dtype(read, written)))


def cost_of_host_bytes(name: str, size_bytes: int) -> Cost:
    """Return the cost of reading and writing `size_bytes` in total in the host's memory."""
    half: list[Description] = [((size_bytes // 2,), "uint8")]
    return Cost(0, 0, round(cpu.cpu_price_s(cpu.cpu_spec(), name, half, half) * 1e9), 0.0)


def _store(key: Any, cost: Cost) -> Cost:
    if len(_known) >= _CACHE_SIZE:
        _known.clear()
    _known[key] = cost
    return cost
