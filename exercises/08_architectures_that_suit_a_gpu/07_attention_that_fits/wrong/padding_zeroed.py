# fails: parity
# Sets keys and values of the padding to zero: a score of 0 still gets a weight.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    if lengths is not None:
        places = torch.arange(key.shape[2], device=key.device)
        padding = (places >= lengths[:, None])[:, None, :, None]
        key, value = key.masked_fill(padding, 0.0), value.masked_fill(padding, 0.0)
    return functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
