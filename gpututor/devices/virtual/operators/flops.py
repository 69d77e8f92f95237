"""FLOPs of one call of an operator, by the formulas of torch.utils.flop_counter."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from gpututor.devices.virtual.clock.contractions import contraction_flops
from gpututor.devices.virtual.clock.kinds import kind_of

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
