"""Fallbacks for operators that the CPU does not implement.

CUDA computes some operators in half precision that the CPU only computes in single: those are computed in single and
rounded. An index that is out of range is an error at once on the CPU; on CUDA it is a failed assertion inside the
kernel, which is reported by a later call that waits. Here it is raised at once, as with CUDA_LAUNCH_BLOCKING=1, with
the CPU's words as its cause; the GPU can be used afterwards, where CUDA's could not in this process. An operator that
the CPU does not have is refused by its name; so are the unsupported ones of `operators.toml`, before they are tried.

A program has to take the same memory, and launch the same kernels, with values and without. So these give what the
CPU's kernels give, which is known from their source (aten/src/ATen/native) and compared by the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from gpututor.devices.virtual import cuda_errors
from gpututor.devices.virtual.machine import CPU
from gpututor.devices.virtual.operator_facts import unsupported
from gpututor.devices.virtual.operator_registry import Operator, Rule
from gpututor.devices.virtual.operators.unsupported_dtypes import in_cudas_name

REFUSALS = (NotImplementedError, RuntimeError, IndexError)
"""What the CPU's kernels raise where CUDA's might not."""

_NO_HALF = re.compile(r"not implemented for '(Half|BFloat16|ComplexHalf)'|MKL FFT doesn't support tensors of type")
_NO_KERNEL = re.compile(r"Could not run '(aten::\w+)[.\w]*' with arguments from the '\w*CPU' backend")
_NO_COMPLEX = re.compile(r"(\w+) on CPU does not support complex inputs")
_OUT_OF_RANGE = re.compile(
    r"index out of range|is out of bounds|out of bounds$|Expected idx >= 0|all elements of input should be between 0"
    r"|tried to access index|is not in the valid range|Indices are out of bounds"
)
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def retry(error: Exception, op: Operator, hosts: Any, named: dict[str, Any]) -> Any:
    """The result of an operator that the CPU refused with `error`, or CUDA's error for it."""
    message = str(error)
    if op.facts.asserts_index and _OUT_OF_RANGE.search(message):
        raise cuda_errors.device_assert() from error
    if op.facts.half_on_cuda and _NO_HALF.search(message):
        return _in_single(op, hosts, named)
    real_only = _NO_COMPLEX.search(message)
    if real_only is not None:
        raise cuda_errors.unsupported(
            f"torch.{real_only[1]} of complex tensors", "The CPU has no such kernel."
        ) from error
    missing = _NO_KERNEL.search(message)
    if missing is not None:
        raise cuda_errors.unsupported(
            "torch.ops." + missing[1].replace("::", "."), "The CPU has no such kernel."
        ) from error
    raise in_cudas_name(error, op) from error.__cause__


def _in_single(op: Operator, hosts: Any, named: dict[str, Any]) -> Any:
    """Computed in single precision and rounded, as CUDA's kernels do inside."""
    narrow = next(one.dtype for one in (*hosts, *named.values()) if _is_narrow(one))
    if op.func.overloadpacket.__name__.startswith("_fft"):
        _check_half_transform(op, hosts, named)
    widened = [_widened(one) for one in hosts]
    out = op.call(*widened, **{name: _widened(one) for name, one in named.items()})
    written = {}
    for host, wide, argument in zip(hosts, widened, op.func._schema.arguments, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write and wide is not host:
            written[id(wide)] = host.copy_(wide)
    for name, host in named.items():
        if _is_narrow(host):
            raise cuda_errors.unsupported(f"{op.name} in {host.dtype} with {name}=", "Leave that argument out.")
    if isinstance(out, torch.Tensor):
        return written.get(id(out), _narrowed(out, narrow))
    return type(out)(written.get(id(one), _narrowed(one, narrow)) for one in out)


def _is_narrow(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _WIDER


def _widened(value: Any) -> Any:
    return value.to(_WIDER[value.dtype]) if _is_narrow(value) else value


def _narrowed(value: torch.Tensor, narrow: torch.dtype) -> torch.Tensor:
    if value.dtype is torch.complex64:
        return value.to(torch.complex32)
    if value.dtype is torch.float32:
        return value.to(torch.float16 if narrow is torch.complex32 else narrow)
    return value


def _check_half_transform(op: Operator, hosts: Any, named: dict[str, Any]) -> None:
    """In half precision cuFFT takes powers of two only (aten/src/ATen/native/cuda/CuFFTPlanCache.h)."""
    tensor, dims = hosts[0], hosts[1]
    sizes = [tensor.size(dim) for dim in dims]
    if op.func.overloadpacket.__name__ == "_fft_c2r":
        sizes[-1] = hosts[3]
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(
            "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, "
            f"but got a signal size of{sizes}"
        )


def refusing_rules() -> dict[Any, Rule]:
    """Return a rule that refuses by name, for each overload of the operators that are not supported."""
    rules: dict[Any, Rule] = {}
    for name, _, instead in unsupported():
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            rules[getattr(packet, overload)] = _refusing("torch.ops.aten." + name, instead)
    return rules


def _refusing(call: str, instead: str) -> Rule:
    def refuse(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise cuda_errors.unsupported(call, instead)

    return refuse


Tensor = torch.Tensor
aten = torch.ops.aten
Way = Callable[[Operator, list[Any], dict[str, Any]], Any]
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _given(op: Operator, args: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments by their names, defaults included."""
    arguments = op.func._schema.arguments
    defaults = {one.name: one.default_value for one in arguments if one.has_default_value()}
    return {**defaults, **{one.name: value for one, value in zip(arguments, args, strict=False)}, **named}


def _unfilled(value: Any) -> Any:
    """A CPU tensor of the same shape that nobody has written to, so that it takes no memory yet."""
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=CPU)
    return value


def _asked_on_cpu(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """A question about shapes, of which the CPU's answer counts."""
    return op.call(*map(_unfilled, args), **{name: _unfilled(one) for name, one in named.items()})


def _first(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """What is written in place, of a shape that stays."""
    return args[0]


def _like(name: str) -> Way:
    """One new tensor, as the argument of that name."""

    def way(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
        return torch.empty_like(_given(op, args, named)[name])

    return way


def _plain_like(name: str) -> Way:
    """The same, contiguous."""

    def way(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
        return torch.empty_like(_given(op, args, named)[name], memory_format=torch.contiguous_format)

    return way


def _wide(given: dict[str, Any]) -> torch.dtype:
    """The type of statistics: that of the parameters where it is another than the input's."""
    parameters = (given.get(name) for name in ("weight", "running_mean"))
    found: torch.dtype = next((one.dtype for one in parameters if one is not None), given["input"].dtype)
    return found


def _batch_norm(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """Outside of training nothing is saved for the backward pass (Normalization.cpp)."""
    given = _given(op, args, named)
    out, *rest = op.call(*args, **named)
    count = out.size(1) if given.get("training", op.func in _ALWAYS_TRAIN) else 0
    dtype = _wide(given)
    return (out, *(torch.empty((count,), dtype=dtype, device=out.device) for _ in range(2)), *rest[2:])


def _layer_norm(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    return _with_statistics(op.call(*args, **named), _wide(_given(op, args, named)))


def _group_norm(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    given = _given(op, args, named)
    return _with_statistics(op.call(*args, **named), _wide({"input": given["input"], "weight": given["weight"]}))


def _with_statistics(outs: Any, dtype: torch.dtype) -> Any:
    out, *rest = outs
    return (out, *(one if one.dtype is dtype else one.to(dtype) for one in rest))


def _convolution(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """Channels come last where they do so in the image or in the weight (ConvUtils.h)."""
    out = op.call(*args, **named)
    order = _CHANNELS_LAST.get(out.dim())
    if order is None or not any(_is_in(one, order) for one in args[:2]):
        return out
    return torch.empty_like(out, memory_format=order)


def _is_in(tensor: Tensor, order: torch.memory_format) -> bool:
    return tensor.is_contiguous(memory_format=order) and not tensor.is_contiguous()


def _reflectors(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """geqrf: a matrix in columns, and as many factors as its shorter side is long."""
    matrix = args[0]
    *batch, rows, columns = matrix.shape
    return torch.empty_like(matrix.mT, memory_format=torch.contiguous_format).mT, matrix.new_empty(
        (*batch, min(rows, columns))
    )


def _bags(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
    """The CPU's fast way of sums keeps no place of each index (EmbeddingBag.cpp)."""
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


def _in_what_was(name: str) -> Way:
    """One tensor, in the memory that was first taken for one like an argument, where that is the larger one."""

    def way(op: Operator, args: list[Any], named: dict[str, Any]) -> Any:
        out, like = op.call(*args, **named), _given(op, args, named)[name]
        if out.numel() >= like.numel():
            return out
        return torch.empty_like(like).as_strided(out.size(), out.stride())

    return way


_ALWAYS_TRAIN = frozenset({aten._batch_norm_with_update.default, aten._batch_norm_with_update_functional.default})
CPU_SHAPE_RULES: dict[Any, Way] = {
    aten._fused_sdp_choice.default: _asked_on_cpu,
    aten._amp_update_scale_.default: _first,
    aten.native_batch_norm.default: _batch_norm,
    aten._native_batch_norm_legit.default: _batch_norm,
    aten._native_batch_norm_legit.no_stats: _batch_norm,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
    aten.convolution.default: _convolution,
    aten._embedding_bag.default: _bags,
    aten.binary_cross_entropy.default: _in_what_was("self"),
    aten.im2col.default: _in_what_was("self"),
    aten.col2im.default: _in_what_was("self"),
    aten.geqrf.default: _reflectors,
    aten._ctc_loss_backward.default: _plain_like("log_probs"),
    aten._ctc_loss_backward.Tensor: _plain_like("log_probs"),
    aten.fractional_max_pool3d_backward.default: _plain_like("self"),
    aten.multi_margin_loss_backward.default: _plain_like("self"),
    aten.multilabel_margin_loss_backward.default: _plain_like("self"),
    **{getattr(aten.index_fill, name): _like("self") for name in ("int_Scalar", "int_Tensor")},
    **{getattr(aten.index_fill_, name): _first for name in ("int_Scalar", "int_Tensor")},
}
"""By operator overload: what it gives."""
