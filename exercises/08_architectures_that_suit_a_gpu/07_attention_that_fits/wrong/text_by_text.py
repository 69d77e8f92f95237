# fails: syncs
# Cuts each text to its length: the host has to read the lengths.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    if lengths is None:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    parts = []
    for text, length in enumerate(lengths.tolist()):
        row = slice(text, text + 1)
        parts.append(functional.scaled_dot_product_attention(query[row], key[row, :, :length], value[row, :, :length]))
    return torch.cat(parts)
