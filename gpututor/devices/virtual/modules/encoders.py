"""Layers of Transformer encoders: where CUDA takes the fused layer, the mask counts, and not what is said about it.

PyTorch has two ways through an encoder's layer. The fused one, for inference, reads the mask and never looks at
`is_causal`; the other one, for training, takes `is_causal=True` at its word and never looks at the mask. The fused
operator refuses virtual tensors, so the other way runs here; it gets what gives the fused one's values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import TransformerEncoderLayer

_attend = TransformerEncoderLayer._sa_block


def attend(self: Any, x: torch.Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> torch.Tensor:
    """The layer's attention, x (n, steps, width), by `attn_mask` alone where CUDA's layer is fused."""
    hinted = is_causal and not _is_fused_on_cuda(self, x)
    return _attend(self, x, attn_mask, key_padding_mask, is_causal=hinted)


def _is_fused_on_cuda(layer: Any, x: torch.Tensor) -> bool:
    """What `TransformerEncoderLayer.forward` asks, but for what is so of every virtual tensor."""
    attention = layer.self_attn
    return bool(
        torch.backends.mha.get_fastpath_enabled()
        and x.dim() == 3
        and not layer.training
        and attention.batch_first
        and attention.in_proj_bias is not None
        and attention._qkv_same_embed_dim
        and layer.activation_relu_or_gelu
        and layer.norm1.eps == layer.norm2.eps
        and attention.num_heads % 2 == 0
        and not torch.is_autocast_enabled()
        and not any(part._forward_hooks or part._forward_pre_hooks for part in layer.modules())
        and not (torch.is_grad_enabled() and any(one.requires_grad for one in (x, *layer.parameters())))
    )
