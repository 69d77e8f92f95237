# fails: structure
# Joins the heads: (texts, m, heads * size). The next layer does that.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    mask = None
    if lengths is not None:
        places = torch.arange(key.shape[2], device=key.device)
        mask = (places < lengths[:, None])[:, None, None]
    seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
    return seen.transpose(1, 2).flatten(2)
