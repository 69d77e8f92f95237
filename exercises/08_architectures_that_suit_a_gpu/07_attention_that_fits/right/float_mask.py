# The mask in float32: 0 for real keys, -inf for padding; causal without a tensor.
import torch
from torch.nn import functional


def attend(query, key, value, lengths=None, causal=False):
    if causal:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    if lengths is None:
        return functional.scaled_dot_product_attention(query, key, value)
    texts, _, count, _ = key.shape
    mask = torch.zeros(texts, 1, 1, count, device=query.device)
    padding = torch.arange(count, device=query.device).view(1, 1, 1, -1) >= lengths.view(-1, 1, 1, 1)
    mask.masked_fill_(padding, float("-inf"))
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
