# fails: aliasing
# Joins with cat, which copies even where the heads lie side by side already.
import torch


def split_and_join(qkv, context, heads):
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    joined = torch.cat([context[:, head] for head in range(heads)], dim=-1)
    return {"query": query, "key": key, "value": value, "joined": joined}
