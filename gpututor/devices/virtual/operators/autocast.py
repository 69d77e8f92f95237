"""CUDA's autocast: its lists of operators and its casts.

Each wrapper carries the dispatch key of CUDA's autocast, whose kernels run before autograd, so that casts are part of
the graph. They do for any tensor on CUDA what PyTorch's do, also for a real one.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch

from gpututor.devices.virtual import torch_private

# fmt: off
LOWER_PRECISION: tuple[str, ...] = (
    "_convolution.deprecated", "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu", "addmm", "addmv", "addr", "matmul",
    "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot",
    "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    "_scaled_dot_product_flash_attention", "scaled_dot_product_attention",
)
"""Every floating-point argument is cast to the autocast dtype (AT_FORALL_LOWER_PRECISION_FP)."""

RECURRENT: tuple[str, ...] = (
    "lstm.input", "lstm.data", "gru.input", "gru.data", "rnn_tanh.input", "rnn_tanh.data", "rnn_relu.input",
    "rnn_relu.data",
)
"""Cast like the others: on CUDA these end in `_cudnn_rnn`, which casts too (aten/src/ATen/cudnn/AutocastRNN.cpp)."""

FLOAT32: tuple[str, ...] = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d", "_upsample_nearest_exact2d",
    "upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "_upsample_bilinear2d_aa", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bicubic2d_aa",
)
"""Every floating-point argument is cast to float32 (AT_FORALL_FP32)."""

FLOAT32_RESULT: tuple[str, ...] = (
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList",
)
"""The argument `dtype` becomes float32 where the caller gave none (AT_FORALL_FP32_SET_OPT_DTYPE)."""

FLOAT32_OVERLOAD: dict[str, str] = {
    "norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype",
}
"""Another overload, which takes a dtype, is called with float32 (AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE)."""

WIDEST: tuple[str, ...] = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put", "tensordot",
    "scatter_add",
)
"""Every floating-point argument is cast to the widest dtype among them (AT_FORALL_PROMOTE)."""

BANNED: tuple[str, ...] = ("binary_cross_entropy",)
"""Refused (aten/src/ATen/autocast_mode.cpp)."""
# fmt: on


_UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)
_real_set_enabled: Any = torch.set_autocast_enabled
_real_clear_cache: Any = torch.clear_autocast_cache
_cached_casts: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}
"""The weights that were cast in this autocast block, by the identity of the weight."""


class _Registered:
    library: Any = None


_registering = threading.Lock()


def set_enabled(*args: Any, **kwargs: Any) -> None:
    """Stands in for `torch.set_autocast_enabled`, which every way into autocast calls: the kernels are made now."""
    with _registering:  # threads enter autocast at once: the replicas of DataParallel do
        if _Registered.library is None:
            _register()
    _real_set_enabled(*args, **kwargs)


def clear_cache() -> None:
    """Stands in for `torch.clear_autocast_cache`, which the outermost autocast block calls at its end."""
    _cached_casts.clear()
    _real_clear_cache()


def forget() -> None:
    """Take the kernels away: a CUDA build has its own beneath them."""
    library, _Registered.library = _Registered.library, None
    _cached_casts.clear()
    if library is not None:
        library._destroy()


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_cuda
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def cast(value: Any, dtype: torch.dtype) -> Any:
    """`value` with the CUDA tensors in it in `dtype`; lists of tensors too."""
    if type(value) in (list, tuple):
        return [cast(one, dtype) for one in value]
    if not _eligible(value) or value.dtype is dtype:
        return value
    if not _worth_keeping(value, dtype):
        return value.to(dtype)
    known = _cached_casts.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    # With its graph, also where the block computes no gradients just now: the next use may.
    with torch.enable_grad():
        kept = value.to(dtype)
    _cached_casts[id(value)] = (weakref.ref(value), kept)
    return kept


def _worth_keeping(value: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether this is a weight, which the next operators will want again (`cached_cast` of autocast_mode.cpp)."""
    return (
        value.dtype is torch.float32
        and dtype is torch.get_autocast_dtype("cuda")
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
        and torch.is_autocast_cache_enabled()
        and not torch.is_inference_mode_enabled()
    )


def _cast_all(op: Any, args: Any, kwargs: dict[str, Any], dtype: torch.dtype) -> Any:
    return op(*[cast(one, dtype) for one in args], **{name: cast(one, dtype) for name, one in kwargs.items()})


def _lower_precision(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return _cast_all(op, args, kwargs, torch.get_autocast_dtype("cuda"))


def _float32(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return _cast_all(op, args, kwargs, torch.float32)


def _float32_result(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if not _eligible(args[0]):
        return op(*args, **kwargs)
    place = next(place for place, one in enumerate(op._schema.arguments) if one.name == "dtype")
    if len(args) > place:
        chosen = args[place] if args[place] is not None else torch.float32
        return op(*args[:place], chosen, *args[place + 1 :], **kwargs)
    return op(*args, **{**kwargs, "dtype": kwargs.get("dtype") or torch.float32})


def _float32_overload(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    names = [one.name for one in op._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    defaults = {one.name: one.default_value for one in op._schema.arguments if one.has_default_value()}
    tensor = given["self"]
    other = _overload(FLOAT32_OVERLOAD[op._schema.name.removeprefix("aten::") + "." + op._overloadname])
    rest = [given.get(name, defaults.get(name)) for name in names[1:]]
    return other(tensor, *rest, dtype=torch.float32 if _eligible(tensor) else tensor.dtype)


def _widest(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    lower = torch.get_autocast_dtype("cuda")
    found = {one.dtype for one in (*args, *kwargs.values()) if _eligible(one)}
    if found - {lower, torch.float32}:
        # As far as CUDA looks: a float32 tensor before the odd one settles it.
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return _cast_all(op, args, kwargs, torch.float32 if torch.float32 in found else lower)


def _banned(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    raise RuntimeError(_UNSAFE)


Policy = Callable[[Any, Any, dict[str, Any]], Any]
_POLICIES: tuple[tuple[tuple[str, ...], Policy], ...] = (
    (LOWER_PRECISION, _lower_precision),
    (RECURRENT, _lower_precision),
    (FLOAT32, _float32),
    (FLOAT32_RESULT, _float32_result),
    (tuple(FLOAT32_OVERLOAD), _float32_overload),
    (WIDEST, _widest),
    (BANNED, _banned),
)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _kernel(op: Any, policy: Policy) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        # What the operator is made of is not cast once more.
        with torch_private.without_cuda_autocast():
            return policy(op, args, kwargs)

    return kernel


def _register() -> None:
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # On a CUDA build, and for the default that all autocast keys share, there is a kernel already.
        warnings.filterwarnings("ignore", message="Warning only once for all operators")
        for names, policy in _POLICIES:
            for name in names:
                library.impl(name, _kernel(_overload(name), policy), torch_private.CUDA_AUTOCAST_KEY)
    _Registered.library = library
