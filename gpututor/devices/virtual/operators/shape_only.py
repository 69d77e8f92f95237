"""Shape-only mode: results without values.

Each virtual tensor holds a tensor on PyTorch's meta device, so an operator's meta kernel infers its results. Without a
meta kernel, PyTorch's decomposition for compilers runs. Other operators raise an error that names them. So does every
operation that depends on values, such as counting the nonzero elements.

A program must take the same memory and launch the same kernels with values and without. So `CPU_SHAPE_RULES` follow the
source of the CPU's kernels (aten/src/ATen/native). Tests compare the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors, torch_private
from gpututor.devices.virtual.machine import CPU, NOWHERE, active_machine
from gpututor.devices.virtual.memory.allocator import CachingAllocator
from gpututor.devices.virtual.operator_registry import Operator, Rule
from gpututor.devices.virtual.operators import determinism
from gpututor.devices.virtual.operators.known_values import values_of
from gpututor.devices.virtual.operators.operands import UnwrappedArguments, bytes_of

Tensor = torch.Tensor
aten = torch.ops.aten
ShapeRule = Callable[[Operator, list[Any], dict[str, Any]], Any]
"""Returns an operator's results without values, given its arguments without values."""
_REFUSALS = (NotImplementedError, RuntimeError, TypeError)
_NUMBER = "To see shape and device, print the tensor itself. Otherwise leave the call out, or run with values."
_KNOWN = "_known_number"
_SMALL = 16 << 20
"""Bytes of arguments up to which an operator that failed is tried on the CPU."""
_BY_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def infer_outputs(op: Operator, hosts: Any, kwargs: dict[str, Any]) -> Any:
    """Return the results of `op` for tensors without values; only the shapes of CPU tensors are used.

    Raises `NoValues` if the results depend on values, `NotImplementedError` if no shapes are known for the operator.
    """
    args = [_outline(host) for host in hosts]
    named = {name: _outline(value) for name, value in kwargs.items() if name != "generator"}
    rule = CPU_SHAPE_RULES.get(op.func)
    if rule is not None:
        return rule(op, args, named)
    with determinism.unchecked():
        try:
            return op.call(*args, **named)
        except _REFUSALS as error:
            return _after_refusal(error, op, args, named)


def _after_refusal(error: Exception, op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    if any(tag in op.func.tags for tag in _BY_VALUES):
        raise cuda_errors.NoValues(op.name) from error
    if not isinstance(error, NotImplementedError):
        raise _error_on_cpu(op, args, named) or error
    composed = torch_private.decomposition(op.func)
    if composed is not None:
        return composed(*args, **named)
    instead = "Its shapes depend on values: run with values, on smaller sizes."
    raise cuda_errors.unsupported(f"{op.name} without values", instead) from error


def _error_on_cpu(op: Operator, args: list[Any], named: dict[str, Any]) -> Exception | None:
    """Return the CPU's error for small arguments of these shapes: meta kernels often have different messages."""
    if bytes_of([*args, *named.values()]) > _SMALL:
        return None
    try:
        op.call(*map(_zeros, args), **{name: _zeros(value) for name, value in named.items()})
    except _REFUSALS as error:
        return error
    return None


def _without_memory(value: Any, device: torch.device) -> Any:
    """Return `value` with tensors from `torch.empty` on `device` in place of its tensors, in the same shapes."""
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
    return type(value)(_without_memory(part, device) for part in value) if type(value) in (list, tuple) else value


def _zeros(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _without_memory(value, CPU).zero_()
    return [_zeros(part) for part in value] if type(value) is list else value


def _outline(value: Any) -> Any:
    """Return `value` with its CPU tensors replaced by tensors without values."""
    if isinstance(value, Tensor):
        return value if value.is_meta else _without_memory(value, NOWHERE)
    if type(value) is list or type(value) is tuple:
        return type(value)(_outline(part) for part in value)
    return value


def known_number(tensor: Any) -> Any:
    """Return a known constant, or 0 for GradScaler's flag: no gradient is assumed to be infinite."""
    values = values_of(tensor._host)
    number = getattr(tensor._host, _KNOWN, None) if values is None else values.item()
    if number is None:
        raise cuda_errors.NoValues("Tensor.item()", _NUMBER)
    return number


_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _given(op: Operator, args: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, defaults included."""
    declared = op.func._schema.arguments
    defaults = {argument.name: argument.default_value for argument in declared if argument.has_default_value()}
    return {**defaults, **{argument.name: value for argument, value in zip(declared, args, strict=False)}, **named}


def _on_cpu(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """Run an operator on the CPU whose result depends on shapes only."""
    return op.call(*_without_memory(args, CPU), **{name: _without_memory(value, CPU) for name, value in named.items()})


def _first(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    return args[0]


def _like(name: str) -> ShapeRule:
    """Return a rule for a new tensor like the argument of that name."""

    def rule(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
        return torch.empty_like(_given(op, args, named)[name])

    return rule


def _plain_like(name: str) -> ShapeRule:
    """Return a rule for a new contiguous tensor of the shape and dtype of that argument."""

    def rule(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
        return torch.empty_like(_given(op, args, named)[name], memory_format=torch.contiguous_format)

    return rule


def _wide(given: dict[str, Any]) -> torch.dtype:
    """Return the dtype of statistics: the parameters', which can differ from the input's."""
    parameters = (given.get(name) for name in ("weight", "running_mean"))
    dtype: torch.dtype = next((value.dtype for value in parameters if value is not None), given["input"].dtype)
    return dtype


def _batch_norm(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """Return statistics for the backward pass, which CUDA saves in evaluation too (Normalization.cu)."""
    given = _given(op, args, named)
    out, *rest = op.call(*args, **named)
    dtype = _wide(given)
    return (out, *(torch.empty((out.size(1),), dtype=dtype, device=out.device) for _ in range(2)), *rest[2:])


def _norm(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    out, *statistics = op.call(*args, **named)
    dtype = _wide(_given(op, args, named))
    return (out, *(value if value.dtype is dtype else value.to(dtype) for value in statistics))


def _convolution(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """Put channels last if they are last in the image or in the weight (ConvUtils.h)."""
    out = op.call(*args, **named)
    order = _CHANNELS_LAST.get(out.dim())
    if order is None or not any(_is_in(value, order) for value in args[:2]):
        return out
    return torch.empty_like(out, memory_format=order)


def _is_in(tensor: Tensor, order: torch.memory_format) -> bool:
    return tensor.is_contiguous(memory_format=order) and not tensor.is_contiguous()


def _reflectors(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """Return the results of geqrf: a column-major matrix, and a factor for each index of its shorter side."""
    matrix = args[0]
    *batch, rows, columns = matrix.shape
    return torch.empty_like(matrix.mT, memory_format=torch.contiguous_format).mT, matrix.new_empty(
        (*batch, min(rows, columns))
    )


def _bags(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """Return an empty `offset2bag` where the CPU takes its fast path for sums (EmbeddingBag.cpp)."""
    given = _given(op, args, named)
    out, places, sizes, most = op.call(*args, **named)
    weight, offsets, scale = given["weight"], given["offsets"], given["per_sample_weights"]
    mode, bags = given["mode"], out.size(0)
    summing = mode == 0 and given["padding_idx"] < 0 and weight.dtype in (torch.float32, torch.float16)
    if summing and weight.stride(1) == 1 and (scale is None or scale.stride(0) == 1):
        places = offsets.new_empty((0,))
    sizes = offsets.new_empty((bags,))
    most = offsets.new_empty((bags, weight.size(1)) if mode == 2 else (bags,))
    return out, places, sizes, most


def _in_first_buffer(name: str) -> ShapeRule:
    """Return a rule for a kernel that first fills a buffer like argument `name`, and returns a part of it."""

    def rule(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
        out, like = op.call(*args, **named), _given(op, args, named)[name]
        if out.numel() >= like.numel():
            return out
        return torch.empty_like(like).as_strided(out.size(), out.stride())

    return rule


def _none_infinite(op: Operator, args: list[Any], named: dict[str, Any]) -> None:
    """Report no infinite gradients to GradScaler, so that it steps the optimizer, as it usually does."""
    setattr(args[1], _KNOWN, 0.0)


CPU_SHAPE_RULES: dict[Any, ShapeRule] = {
    aten._amp_foreach_non_finite_check_and_unscale_.default: _none_infinite,
    aten._fused_sdp_choice.default: _on_cpu,
    aten._amp_update_scale_.default: _first,
    aten.native_batch_norm.default: _batch_norm,
    aten._native_batch_norm_legit.default: _batch_norm,
    aten._native_batch_norm_legit.no_stats: _batch_norm,
    aten.native_layer_norm.default: _norm,
    aten.native_group_norm.default: _norm,
    aten.convolution.default: _convolution,
    aten._embedding_bag.default: _bags,
    aten.binary_cross_entropy.default: _in_first_buffer("self"),
    aten.im2col.default: _in_first_buffer("self"),
    aten.col2im.default: _in_first_buffer("self"),
    aten.geqrf.default: _reflectors,
    aten._ctc_loss_backward.default: _plain_like("log_probs"),
    aten._ctc_loss_backward.Tensor: _plain_like("log_probs"),
    aten.fractional_max_pool3d_backward.default: _plain_like("self"),
    aten.multi_margin_loss_backward.default: _plain_like("self"),
    aten.multilabel_margin_loss_backward.default: _plain_like("self"),
    **{getattr(aten.index_fill, name): _like("self") for name in ("int_Scalar", "int_Tensor")},
    **{getattr(aten.index_fill_, name): _first for name in ("int_Scalar", "int_Tensor")},
}
"""Rules by operator overload."""


@cache
def _refusing(rule: Rule) -> Rule:
    def guarded(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not active_machine().values:
            raise cuda_errors.unsupported(f"{func._schema.name} without values", "Run a single process.")
        return rule(func, args, kwargs)

    return guarded


def guarded(rules: dict[Any, Rule]) -> dict[Any, Rule]:
    """Return the rules of collectives, which raise an error on a machine without values."""
    return {operator: _refusing(rule) for operator, rule in rules.items()}


WIDEST = 16
"""Bytes of the widest element, complex128: the most bytes of a result for each element of its inputs."""


def could_grow(op: Operator, inputs: UnwrappedArguments, memory: CachingAllocator) -> bool:
    """Return True if the results may not fit into memory, so that their sizes must be inferred. Uses cheap bounds.

    A result has at most as many elements as the product of its two largest inputs. Operators whose sizes come from
    numbers ("always") are exceptions. A pointwise operator on equal shapes returns as many elements as it gets, or
    fewer.
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


def could_fill(args: tuple[Any, ...], memory: CachingAllocator) -> bool:
    """Return True if a factory's result may not fit into memory. Without a size as first argument, it may not."""
    if not args or type(args[0]) not in (list, torch.Size):
        return True
    widest = WIDEST * math.prod(length for length in args[0] if type(length) is int)
    return widest > memory.room


def _counts(values: Tensor, weights: Tensor | None = None, minlength: int = 0) -> list[int]:
    return [8 * max(minlength, int(values.max()) + 1 if values.numel() else 0)]


# Sizes that depend on values, which PyTorch cannot infer from shapes; CUDA reads them back to the host too.
_NEEDS_VALUES: dict[Any, Callable[..., list[int]]] = {
    torch.ops.aten.bincount.default: _counts,
    torch.ops.aten.repeat_interleave.Tensor: lambda repeats, **options: [8 * int(repeats.sum())],
}
_forecasts: dict[Any, list[int]] = {}
_FORECASTS_AT_MOST = 4096


def _cache_key(value: Any) -> Any:
    """Return the properties of an argument that the size of a result can depend on."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    return tuple(_cache_key(part) for part in value) if type(value) in (list, tuple) else (type(value), value)


def forecast(func: Any, hosts: Any, named: dict[str, Any]) -> list[int]:
    """Return the bytes of each tensor that `func` would return; empty if PyTorch cannot infer them.

    Inferring shapes takes as long as ten small operators, so results are cached.
    """
    options = {name: value for name, value in named.items() if name != "generator"}
    if func in _NEEDS_VALUES:
        return _NEEDS_VALUES[func](*hosts, **options)
    key = (
        id(func),
        _cache_key(hosts),
        tuple((name, _cache_key(value)) for name, value in options.items()),
    )
    sizes = _forecasts.get(key)
    if sizes is None:
        if len(_forecasts) >= _FORECASTS_AT_MOST:
            _forecasts.clear()
        sizes = _forecasts[key] = _infer_sizes(func, hosts, options)
    return sizes


def _infer_sizes(func: Any, hosts: Any, options: dict[str, Any]) -> list[int]:
    on_meta = {name: _without_memory(value, NOWHERE) for name, value in options.items()}
    if "device" in on_meta:
        on_meta["device"] = NOWHERE
    try:
        with determinism.unchecked():
            made = func(*[_without_memory(value, NOWHERE) for value in hosts], **on_meta)
    except (NotImplementedError, RuntimeError, IndexError, TypeError, ValueError):
        # The operator itself will raise its own error for these arguments.
        return []
    return [bytes_of(part) for part in (made if type(made) in (list, tuple) else [made]) if isinstance(part, Tensor)]
