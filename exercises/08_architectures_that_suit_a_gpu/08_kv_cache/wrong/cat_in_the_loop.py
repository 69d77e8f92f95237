# fails: growth
# Appends keys and values with torch.cat: a new cache for each token.
import torch
from torch.nn import functional


def generate(model, prompts, steps):
    newest, first, written = prompts, 0, []
    keys = values = None
    for _ in range(steps):
        x = model.embed(newest, first)
        query, key, value = model.project(x)
        keys = key if keys is None else torch.cat([keys, key], dim=2)
        values = value if values is None else torch.cat([values, value], dim=2)
        seen = functional.scaled_dot_product_attention(query, keys, values, is_causal=first == 0)
        newest = model.score(x, seen)[:, -1].argmax(dim=-1, keepdim=True)
        first = keys.shape[2]
        written.append(newest)
    return torch.cat(written, dim=1)
