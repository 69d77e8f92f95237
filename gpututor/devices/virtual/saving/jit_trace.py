"""While a trace is made: convolutions are written down as PyTorch's own traces have them."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_CONVOLUTIONS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_TRANSPOSED = {torch.conv_transpose1d: 1, torch.conv_transpose2d: 2, torch.conv_transpose3d: 3}
_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED_NAMES = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")


class ForTracing(TorchFunctionMode):
    """Makes the call that is traced: `aten::convolution` itself is not (torchgen's DONT_RECORD_TRACE)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CONVOLUTIONS:
            return _convolution(_CONVOLUTIONS[func], dict(zip(_NAMES, args, strict=False)) | (kwargs or {}), False)
        if func in _TRANSPOSED:
            given = dict(zip(_TRANSPOSED_NAMES, args, strict=False)) | (kwargs or {})
            return _convolution(_TRANSPOSED[func], given, True)
        return func(*args, **(kwargs or {}))


def _each(value: Any, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _convolution(dims: int, given: dict[str, Any], transposed: bool) -> torch.Tensor:
    x, weight = given["input"], given["weight"]
    dilation = _each(given.get("dilation", 1), dims)
    padding = given.get("padding", 0)
    if padding == "same":
        totals = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:], strict=True)]
        if any(total % 2 for total in totals):
            # More on the right, as in Convolution.cpp.
            x = torch.nn.functional.pad(x, [side for total in reversed(totals) for side in (0, total % 2)])
        padding = [int(total) // 2 for total in totals]
    elif padding == "valid":
        padding = 0
    single = x.dim() == dims + 1
    out = torch._convolution(
        x.unsqueeze(0) if single else x,
        weight,
        given.get("bias"),
        _each(given.get("stride", 1), dims),
        _each(padding, dims),
        dilation,
        transposed,
        _each(given.get("output_padding", 0), dims),
        given.get("groups", 1),
        False,
        False,
        True,
        True,
    )
    return out.squeeze(0) if single else out
