"""Operators of SyncBatchNorm, which exist for CUDA only (aten/src/ATen/native/cuda/Normalization.cuh)."""

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
    return [dim for dim in range(values.dim()) if dim != 1]


def _by_channel(figures: Tensor, values: Tensor) -> Tensor:
    """Reshape `figures` (channels,) to broadcast with `values` (n, channels, …)."""
    return figures.view([1, -1] + [1] * (values.dim() - 2))


def _exact(values: Tensor) -> Tensor:
    """Convert half dtypes to float32, in which they are summed."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def stats(values: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return (mean, 1 ÷ standard deviation) of each channel."""
    wide = _exact(values)
    variance, mean = torch.var_mean(wide, _other_dims(values), correction=0)
    return mean, torch.rsqrt(variance + eps)


def gather_stats(
    values: Tensor,
    means: Tensor,
    inverse_stds: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor | int,
) -> tuple[Tensor, Tensor]:
    """Combine the statistics of each process, (processes, channels), and update the running statistics.

    `counts` has the number of values of a channel in each process, or one number for all processes.
    """
    if isinstance(counts, int):
        counts = means.new_full((means.size(0),), counts)
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
    """Return (Σ gradient, Σ gradient·(value − mean), gradient of the weight, gradient of the bias) by channel."""
    dims = _other_dims(values)
    wide = _exact(gradient)
    total = wide.sum(dims)
    total_centered = (wide * (_exact(values) - _by_channel(mean, values))).sum(dims)
    for_weight = total_centered * inverse_std
    kind = for_weight.dtype if weight is None else weight.dtype
    return (
        total if input_gradient else None,
        total_centered if input_gradient else None,
        for_weight.to(kind) if weight_gradient else None,
        # A copy: the first result is summed over all processes in place.
        total.to(kind, copy=True) if bias_gradient else None,
    )


def backward_elementwise(
    gradient: Tensor,
    values: Tensor,
    mean: Tensor,
    inverse_std: Tensor,
    weight: Tensor | None,
    total: Tensor,
    total_centered: Tensor,
    counts: Tensor,
) -> Tensor:
    """Return the gradient of the values from the sums of all processes."""
    count = counts.sum().to(total.dtype)
    scale = inverse_std if weight is None else inverse_std * weight
    centered = _exact(values) - _by_channel(mean, values)
    projected = centered * _by_channel(total_centered / count * inverse_std.square(), values)
    out = (_exact(gradient) - _by_channel(total / count, values) - projected) * _by_channel(scale, values)
    return out.to(values.dtype)


def _rule(compute: Callable[..., Any]) -> Rule:
    def rule(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        wrappers = [arg for arg in args if type(arg) is VirtualTensor]
        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        values = (given[name] for name in names)
        out = compute(*(value._host if type(value) is VirtualTensor else value for value in values))
        device = wrappers[0]._device
        machine = active_machine()
        moved = sum(map(bytes_of, wrappers)) + bytes_of(out)
        execution.kernel_of_bytes(machine, machine.home(device), func._schema.name, moved)
        return wrap(out, wrappers, device)

    return rule


def sync_norm_rules() -> dict[Any, Rule]:
    return {
        aten.batch_norm_stats.default: _rule(stats),
        aten.batch_norm_gather_stats.default: _rule(gather_stats),
        aten.batch_norm_gather_stats_with_counts.default: _rule(gather_stats),
        aten.batch_norm_elemt.default: _rule(elementwise),
        aten.batch_norm_backward_reduce.default: _rule(backward_reduce),
        aten.batch_norm_backward_elemt.default: _rule(backward_elementwise),
    }
