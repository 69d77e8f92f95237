"""Attention and encoder layers, whose inference takes a fused path on CUDA, with results of its own.

In evaluation mode without gradients, `nn.MultiheadAttention`, `nn.TransformerEncoderLayer` and `nn.TransformerEncoder`
call fused operators, which reject virtual tensors. So the operators of training run here, with results of the fused
path:

- it reads a mask and ignores `is_causal`; the other path trusts `is_causal=True` and ignores the mask;
- a position that may attend to nothing becomes NaN; the other path gives 0;
- an encoder leaves out the padding, so its output is 0 there.

The conditions are those of the `forward` methods of torch/nn/modules/transformer.py and activation.py.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer

from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.machine import active_machine
from gpututor.devices.virtual.tensors.tensor import host_tensor

_attend = TransformerEncoderLayer._sa_block
_encode = TransformerEncoder.forward
_multi_head = MultiheadAttention.forward


@functools.wraps(_attend)
def attend(self: Any, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
    """Run a layer's attention on x (n, steps, width)."""
    fused = _is_fused_layer(self, x)
    out = _attend(self, x, attn_mask, key_padding_mask, is_causal=is_causal and not fused)
    if fused:
        _fill_where_all_masked(out, attn_mask, key_padding_mask)
    return out


@functools.wraps(_multi_head)
def multi_head(
    self: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """Run `nn.MultiheadAttention`."""
    masks = attn_mask, key_padding_mask
    results = _multi_head(
        self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
    )
    plain = query is key is value and self.bias_k is None and self.bias_v is None and not self.add_zero_attn
    if plain and _has_bool_masks(*masks) and not self.training and _is_fused_attention(self, query, self.parameters()):
        _fill_where_all_masked(results[0], *masks)
    return results


@functools.wraps(_encode)
def encode(
    self: Any, src: Tensor, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
) -> Tensor:
    """Run an encoder on src (n, steps, width)."""
    masks_padding_only = mask is None and src_key_padding_mask is not None
    if not masks_padding_only or not _leaves_padding_out(self, src, src_key_padding_mask):
        return _encode(self, src, mask, src_key_padding_mask, is_causal)
    out = src
    for layer in self.layers:
        out = layer(out, src_key_padding_mask=src_key_padding_mask)
    out = out.masked_fill(_is_masked(src_key_padding_mask).unsqueeze(-1), 0.0)
    return out if self.norm is None else self.norm(out)


def _is_fused_layer(layer: Any, x: Tensor) -> bool:
    """Return True if `TransformerEncoderLayer.forward` would take the fused path for these tensors on CUDA."""
    return bool(
        not layer.training
        and layer.self_attn.in_proj_bias is not None
        and layer.activation_relu_or_gelu
        and layer.norm1.eps == layer.norm2.eps
        and not any(part._forward_hooks or part._forward_pre_hooks for part in layer.modules())
        and _is_fused_attention(layer.self_attn, x, layer.parameters())
    )


def _is_fused_attention(attention: Any, x: Tensor, parameters: Any) -> bool:
    return bool(
        torch.backends.mha.get_fastpath_enabled()
        and x.dim() == 3
        and attention.batch_first
        and attention._qkv_same_embed_dim
        and attention.num_heads % 2 == 0
        and not torch.is_autocast_enabled()
        and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, *parameters)))
    )


def _leaves_padding_out(encoder: Any, src: Tensor, padding: Tensor) -> bool:
    """Return True if `TransformerEncoder.forward` would pack the sequences. Waits for the mask, as on CUDA."""
    first = encoder.layers[0]
    if torch.compiler.is_compiling() or not getattr(encoder, "use_nested_tensor", False) or first.training:
        return False
    if not _is_fused_attention(first.self_attn, src, first.parameters()):
        return False
    return not getattr(encoder, "mask_check", True) or bool(
        torch_private.is_left_aligned(src, _is_masked(padding).logical_not())
    )


def _has_bool_masks(*masks: Any) -> bool:
    """Return True if there are masks, and all of them are boolean: `MultiheadAttention` fuses no others."""
    given = [mask for mask in masks if mask is not None]
    return bool(given) and all(mask.dtype == torch.bool for mask in given)


def _is_masked(mask: Tensor) -> Tensor:
    """Return True for each masked key. A float mask is added to the scores."""
    return mask if mask.dtype == torch.bool else mask == float("-inf")


def _fill_where_all_masked(out: Tensor, attn_mask: Any, key_padding_mask: Any) -> None:
    """Fill positions of out (n, steps, width) that may attend to nothing with NaN. It is not a kernel of its own."""
    if (attn_mask is None and key_padding_mask is None) or not active_machine().values or torch.compiler.is_compiling():
        return
    values, *masks = [None if tensor is None else host_tensor(tensor) for tensor in (out, attn_mask, key_padding_mask)]
    assert values is not None
    with torch_private.host_only():
        masked = torch.zeros(len(out), 1, 1, 1, dtype=torch.bool)
        if masks[0] is not None:  # (steps, keys), or (n * heads, steps, keys)
            groups = 1 if masks[0].dim() == 2 else len(out)
            masked = masked | _is_masked(masks[0]).reshape(groups, -1, *masks[0].shape[-2:])
        if masks[1] is not None:  # (n, keys)
            masked = masked | _is_masked(masks[1])[:, None, None]
        values[masked.all(-1).any(1).expand(values.shape[:2])] = float("nan")
