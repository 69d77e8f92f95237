# fails: memory
# Stores the causal mask as a square of n times n.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    mask = None
    places = torch.arange(key.shape[2], device=key.device)
    if lengths is not None:
        mask = (places < lengths[:, None])[:, None, None]
    if causal:
        mask = places <= places[:, None]
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
