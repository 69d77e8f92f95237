# fails: parity
# Replaces the products and the softmax, and forgets the causal mask.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    mask = None
    if lengths is not None:
        places = torch.arange(key.shape[2], device=key.device)
        mask = (places < lengths[:, None])[:, None, None]
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
