# fails: syncs
# Skips the mask if no text has padding: the host has to wait for the answer.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    mask = None
    if lengths is not None and (lengths < key.shape[2]).any():
        places = torch.arange(key.shape[2], device=key.device)
        mask = (places < lengths[:, None])[:, None, None]
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
