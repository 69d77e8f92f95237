# fails: parity
# Divides by the root of the size, although the operator does it already.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    mask = None
    if lengths is not None:
        places = torch.arange(key.shape[2], device=key.device)
        mask = (places < lengths[:, None])[:, None, None]
    query = query / query.shape[-1] ** 0.5
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
