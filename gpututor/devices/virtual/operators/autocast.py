"""CUDA's autocast: its lists of operators and its casts.

Each virtual tensor carries the dispatch key of CUDA's autocast. The autocast kernels run before autograd, so casts are
part of the graph. They treat tensors of a real GPU as PyTorch's own kernels do.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.operator_facts import tables
from gpututor.devices.virtual.operators.recurrent import SCATTERED

_OVERLOADS: dict[str, str] = tables()["autocast_overloads"]
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
    """Register the kernels. Every `torch.autocast` block calls `torch.set_autocast_enabled`."""
    with _registering:  # threads may enter autocast at the same time, such as DataParallel's replicas
        if _Registered.library is None:
            _register()
    _real_set_enabled(*args, **kwargs)


def clear_cache() -> None:
    """Clear both caches, at the end of the outermost autocast block."""
    _cached_casts.clear()
    _real_clear_cache()


def forget() -> None:
    """Remove the kernels, which hide those of a CUDA build."""
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
    """Return `value`, or a list of values, with its CUDA tensors in `dtype`."""
    if type(value) in (list, tuple):
        return [cast(part, dtype) for part in value]
    if not _eligible(value) or value.dtype is dtype:
        return value
    if not _is_cacheable(value, dtype):
        return value.to(dtype)
    cached = _cached_casts.get(id(value))
    if cached is not None and cached[0]() is value:
        return cached[1]
    # Recorded for autograd even inside `no_grad`: the next use may need gradients.
    with torch.enable_grad():
        result = value.to(dtype)
    _cached_casts[id(value)] = (weakref.ref(value), result)
    return result


def _is_cacheable(value: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return True for a weight, whose cast later operators reuse (`cached_cast` of autocast_mode.cpp)."""
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
    return op(*[cast(value, dtype) for value in args], **{name: cast(value, dtype) for name, value in kwargs.items()})


_FUSED = {"aten::softmax": torch.ops.aten._softmax.default, "aten::log_softmax": torch.ops.aten._log_softmax.default}


def fused_softmax(op_name: str, tensor: Any, dim: Any, dtype: Any) -> Any:
    """Run CUDA's kernel that reads float16 and returns float32; return None for other arguments."""
    fused = _FUSED.get(op_name)
    if fused is None or dtype is not torch.float32 or not isinstance(tensor, torch.Tensor) or type(dim) is not int:
        return None
    return fused(tensor, dim, True) if tensor.is_cuda and tensor.dtype is torch.float16 else None


def _float32_result(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if not _eligible(args[0]):
        return op(*args, **kwargs)
    if len(args) == 2 and (kwargs.get("dtype") or torch.float32) is torch.float32:
        out = fused_softmax(op._schema.name, args[0], args[1], torch.float32)
        if out is not None:
            return out
    place = [argument.name for argument in op._schema.arguments].index("dtype")
    if len(args) > place:
        dtype = args[place] if args[place] is not None else torch.float32
        return op(*args[:place], dtype, *args[place + 1 :], **kwargs)
    return op(*args, **{**kwargs, "dtype": kwargs.get("dtype") or torch.float32})


def _float32_overload(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    declared = op._schema.arguments
    names = [argument.name for argument in declared]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    defaults = {argument.name: argument.default_value for argument in declared if argument.has_default_value()}
    tensor = given["self"]
    other = _overload(_OVERLOADS[op._schema.name.removeprefix("aten::") + "." + op._overloadname])
    rest = [given.get(name, defaults.get(name)) for name in names[1:]]
    return other(tensor, *rest, dtype=torch.float32 if _eligible(tensor) else tensor.dtype)


def _widest(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    lower = widest = torch.get_autocast_dtype("cuda")
    for value in filter(_eligible, (*args, *kwargs.values())):
        if torch.float32 in (widest, value.dtype):
            widest = torch.float32
        elif value.dtype is not lower:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return _cast_all(op, args, kwargs, widest)


def _refuse(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    raise RuntimeError(_UNSAFE)


def _lower_precision(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return _cast_all(op, args, kwargs, torch.get_autocast_dtype("cuda"))


def _recurrent(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", SCATTERED)  # CUDA's autocast compacts the weights that it casts
        return _lower_precision(op, args, kwargs)


Policy = Callable[[Any, Any, dict[str, Any]], Any]
_POLICIES: dict[str, Policy] = {
    "lower_precision": _lower_precision,
    "recurrent": _recurrent,
    "float32": partial(_cast_all, dtype=torch.float32),
    "float32_result": _float32_result,
    "widest": _widest,
    "banned": _refuse,
}


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _kernel(op: Any, policy: Policy) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        # The operators that it calls do not cast again.
        with torch_private.without_cuda_autocast():
            return policy(op, args, kwargs)

    return kernel


def policies() -> dict[str, Policy]:
    policy_of = {name: _POLICIES[kind] for kind, names in tables()["autocast"].items() for name in names.split()}
    return policy_of | dict.fromkeys(_OVERLOADS, _float32_overload)


def _register() -> None:
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        # CUDA builds, and the fallback of all autocast keys, have a kernel already.
        warnings.filterwarnings("ignore", message="Warning only once for all operators")
        for name, policy in policies().items():
            library.impl(name, _kernel(_overload(name), policy), torch_private.CUDA_AUTOCAST_KEY)
    _Registered.library = library
