"""Fused attention: where CUDA takes one kernel for `scaled_dot_product_attention`, so does the virtual GPU.

C++ chooses by the device that it sees, and would take the parts: two products, a softmax and the matrix between them in
memory. Chosen as in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp; written down as flash attention whichever of
CUDA's fused kernels it would be. With dropout, with fewer heads of keys than of queries, and under torch.func, the
parts are run, as the CPU has no fused kernel for those.
"""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.modules import autocast
from gpututor.devices.virtual.tensors.tensor import VirtualTensor

_HALF = (torch.float16, torch.bfloat16)
_fused: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def attention(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`scaled_dot_product_attention` on (batch, heads, length, features), fused where CUDA fuses it."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
    tensors: list[Any] = [given.get(name) for name in names[:3]]
    mask: Any = given.get("attn_mask")
    if not all(type(one) is VirtualTensor for one in tensors) or not (mask is None or type(mask) is VirtualTensor):
        return func(*args, **kwargs)
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        tensors = [autocast.cast(one, dtype) for one in tensors]
        mask = autocast.cast(mask, dtype)
    if not _is_fused(tensors, mask, given):
        return func(*args, **kwargs)
    if mask is not None and mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=tensors[0].dtype).masked_fill_(mask.logical_not(), -torch.inf)
    causal = bool(given.get("is_causal", False))
    return _fused(*tensors, 0.0, causal, attn_mask=mask, scale=given.get("scale"))[0]


def _is_fused(tensors: list[Any], mask: Any, given: dict[str, Any]) -> bool:
    query, key, value = tensors
    shapes = [one.shape for one in tensors]
    settings = torch.backends.cuda
    half = query.dtype in _HALF
    allowed = (settings.flash_sdp_enabled() and half and mask is None) or settings.mem_efficient_sdp_enabled()
    return (
        allowed
        and not private.functorch_is_on()
        and not given.get("dropout_p")
        and not given.get("enable_gqa", False)
        and (half or query.dtype is torch.float32)
        and query._device is key._device is value._device
        and query.dtype is key.dtype is value.dtype
        and all(len(shape) == 4 and 0 not in shape for shape in shapes)
        and shapes[0][:2] == shapes[1][:2] == shapes[2][:2]
        and shapes[1][2] == shapes[2][2]
        and shapes[0][3] == shapes[1][3] == shapes[2][3] <= 256
        and all(one.stride(-1) == 1 for one in tensors)
        and _mask_fits(query, key, mask, given)
    )


def _mask_fits(query: Any, key: Any, mask: Any, given: dict[str, Any]) -> bool:
    if mask is None:
        return True
    if given.get("is_causal", False) or mask.requires_grad or mask.dtype not in (torch.bool, query.dtype):
        return False
    wanted = (*query.shape[:3], key.shape[2])
    return mask.dim() in (2, 4) and all(
        length in (1, whole) for length, whole in zip(reversed(mask.shape), reversed(wanted), strict=False)
    )
