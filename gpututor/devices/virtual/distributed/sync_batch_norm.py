"""SyncBatchNorm: its operators exist for CUDA only (aten/src/ATen/native/cuda/Normalization.cuh)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpututor.devices.virtual import execution
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.operator_registry import Rule
from gpututor.devices.virtual.operators.operands import bytes_of, wrap
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

Tensor = torch.Tensor
aten = torch.ops.aten


def _other_dims(values: Tensor) -> list[int]:
    """All dimensions but the channels', which are the second."""
    return [dim for dim in range(values.dim()) if dim != 1]


def _by_channel(figures: Tensor, values: Tensor) -> Tensor:
    """`figures` (channels,) so that they broadcast with `values` (n, channels, …)."""
    return figures.view([1, -1] + [1] * (values.dim() - 2))


def _exact(values: Tensor) -> Tensor:
    """Half types are summed in float32."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def stats(values: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(mean, 1 ÷ standard deviation) of each channel."""
    wide = _exact(values)
    variance, mean = torch.var_mean(wide, _other_dims(values), correction=0)
    return mean, torch.rsqrt(variance + eps)


def gather_stats_with_counts(
    values: Tensor,
    means: Tensor,
    inverse_stds: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """The statistics of all processes' values, from those of each, (processes, channels); updates the running ones."""
    weights = counts.view(-1, 1).to(means.dtype)
    count = weights.sum()
    mean = (means * weights).sum(0) / count
    variances = inverse_stds.pow(-2) - eps
    squares = ((variances + (means - mean).square()) * weights).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(squares / (count - 1), alpha=momentum)
    return mean, torch.rsqrt(squares / count + eps)


def elementwise(
    values: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, inverse_std: Tensor, eps: float
) -> Tensor:
    """The values, normalised."""
    out = (_exact(values) - _by_channel(mean, values)) * _by_channel(inverse_std, values)
    if weight is not None:
        out = out * _by_channel(weight, values)
    if bias is not None:
        out = out + _by_channel(bias, values)
    return out.to(values.dtype)


def backward_reduce(
    gradient: Tensor,
    values: Tensor,
    mean: Tensor,
    inverse_std: Tensor,
    weight: Tensor | None,
    input_gradient: bool,
    weight_gradient: bool,
    bias_gradient: bool,
) -> tuple[Tensor | None, ...]:
    """(Σ gradient, Σ gradient·(value − mean), gradient of the weight, gradient of the bias), by channel."""
    dims = _other_dims(values)
    wide = _exact(gradient)
    total = wide.sum(dims)
    total_centred = (wide * (_exact(values) - _by_channel(mean, values))).sum(dims)
    for_weight = total_centred * inverse_std
    kind = for_weight.dtype if weight is None else weight.dtype
    return (
        total if input_gradient else None,
        total_centred if input_gradient else None,
        for_weight.to(kind) if weight_gradient else None,
        # Not the very tensor of the first: that one is summed over all processes in place.
        total.to(kind, copy=True) if bias_gradient else None,
    )


def backward_elementwise(
    gradient: Tensor,
    values: Tensor,
    mean: Tensor,
    inverse_std: Tensor,
    weight: Tensor | None,
    total: Tensor,
    total_centred: Tensor,
    counts: Tensor,
) -> Tensor:
    """The gradient of the values, from the sums of all processes."""
    count = counts.sum().to(total.dtype)
    scale = inverse_std if weight is None else inverse_std * weight
    centred = _exact(values) - _by_channel(mean, values)
    projected = centred * _by_channel(total_centred / count * inverse_std.square(), values)
    out = (_exact(gradient) - _by_channel(total / count, values) - projected) * _by_channel(scale, values)
    return out.to(values.dtype)


def _ruled(compute: Callable[..., Any]) -> Rule:
    def rule(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        wrappers = [one for one in args if type(one) is VirtualTensor]
        names = [one.name for one in func._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        hosts = [one._host if type(one) is VirtualTensor else one for one in (given[name] for name in names)]
        out = compute(*hosts)
        device = wrappers[0]._device
        machine = active_machine()
        moved = sum(map(bytes_of, wrappers)) + bytes_of(out)
        execution.kernel_of_bytes(machine, machine.home(device), func._schema.name, moved)
        return wrap(out, wrappers, device)

    return rule


def sync_norm_rules() -> dict[Any, Rule]:
    """The rule of each operator of SyncBatchNorm."""
    return {
        aten.batch_norm_stats.default: _ruled(stats),
        aten.batch_norm_gather_stats_with_counts.default: _ruled(gather_stats_with_counts),
        aten.batch_norm_elemt.default: _ruled(elementwise),
        aten.batch_norm_backward_reduce.default: _ruled(backward_reduce),
        aten.batch_norm_backward_elemt.default: _ruled(backward_elementwise),
    }
