"""What is done when the CPU refuses an operator that it was asked to compute for a GPU.

CUDA computes some operators in half precision that the CPU only computes in single: those are computed in single and
rounded. An index that is out of range is an error at once on the CPU; on CUDA it is a failed assertion inside the
kernel, which is reported by a later call that waits. Here it is raised at once, as with CUDA_LAUNCH_BLOCKING=1, with
the CPU's words as its cause; the GPU can be used afterwards, where CUDA's could not in this process. An operator that
the CPU does not have is refused by its name; so is what `unsupported.toml` lists, before it is tried.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import torch

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.operators.kernels import in_cudas_name
from gpututor.devices.virtual.operators.overloads import Operator, Rule

REFUSALS = (NotImplementedError, RuntimeError, IndexError)
"""What the CPU's kernels raise where CUDA's might not."""

_NO_HALF = re.compile(r"not implemented for '(Half|BFloat16|ComplexHalf)'|MKL FFT doesn't support tensors of type")
_NO_KERNEL = re.compile(r"Could not run '(aten::\w+)[.\w]*' with arguments from the '\w*CPU' backend")
_NO_COMPLEX = re.compile(r"(\w+) on CPU does not support complex inputs")
_OUT_OF_RANGE = re.compile(
    r"index out of range|is out of bounds|out of bounds$|Expected idx >= 0|all elements of input should be between 0"
    r"|tried to access index|is not in the valid range|Indices are out of bounds"
)
# Checked against the dtypes that `op_db` gives for CUDA; the others are refused by CUDA too.
# fmt: off
_HALF_ON_CUDA = frozenset({
    "_fft_c2c", "_fft_c2r", "_fft_r2c", "_upsample_bicubic2d_aa", "_upsample_bicubic2d_aa_backward",
    "_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa_backward", "avg_pool3d", "avg_pool3d_backward",
    "multi_margin_loss", "multi_margin_loss_backward", "multilabel_margin_loss_backward",
    "multilabel_margin_loss_forward", "rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_backward",
})
# Their CUDA kernels check an index with CUDA_KERNEL_ASSERT.
_ASSERTS_ON_CUDA = frozenset({
    "_embedding_bag", "_embedding_bag_forward_only", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put",
    "binary_cross_entropy", "embedding", "embedding_dense_backward", "embedding_renorm_", "gather", "index",
    "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_", "index_put", "index_put_",
    "index_reduce", "index_reduce_", "index_select", "max_unpool2d", "max_unpool3d", "multi_margin_loss",
    "nll_loss2d_forward", "nll_loss_forward", "put", "put_", "scatter", "scatter_", "scatter_add", "scatter_add_",
    "scatter_reduce", "scatter_reduce_", "take",
})
# fmt: on
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def after_refusal(error: Exception, op: Operator, hosts: Any, named: dict[str, Any]) -> Any:
    """The result of an operator that the CPU refused with `error`, or CUDA's error for it."""
    message = str(error)
    short = op.func.overloadpacket.__name__
    if short in _ASSERTS_ON_CUDA and _OUT_OF_RANGE.search(message):
        raise errors.device_assert() from error
    if short in _HALF_ON_CUDA and _NO_HALF.search(message):
        return _in_single(op, hosts, named)
    real_only = _NO_COMPLEX.search(message)
    if real_only is not None:
        raise errors.unsupported(f"torch.{real_only[1]} of complex tensors", "The CPU has no such kernel.") from error
    missing = _NO_KERNEL.search(message)
    if missing is not None:
        raise errors.unsupported("torch.ops." + missing[1].replace("::", "."), "The CPU has no such kernel.") from error
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
            raise errors.unsupported(f"{op.name} in {host.dtype} with {name}=", "Leave that argument out.")
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


@cache
def unsupported() -> tuple[dict[str, str], ...]:
    """The entries of `unsupported.toml`."""
    text = (Path(__file__).parent / "unsupported.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["unsupported"])


def refusing_rules() -> dict[Any, Rule]:
    """A rule that refuses by name, for each overload of the operators of `unsupported.toml`."""
    rules: dict[Any, Rule] = {}
    for entry in unsupported():
        if "operator" not in entry:
            continue
        short = entry["operator"].removeprefix("aten::")
        packet = getattr(torch.ops.aten, short)
        for overload in packet.overloads():
            rules[getattr(packet, overload)] = _refusing("torch.ops.aten." + short, entry["instead"])
    return rules


def _refusing(call: str, instead: str) -> Rule:
    def refuse(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise errors.unsupported(call, instead)

    return refuse
