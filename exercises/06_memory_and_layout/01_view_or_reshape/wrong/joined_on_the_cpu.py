# fails: placement
# Joins the heads on the CPU to save device memory, and leaves them there.
def split_and_join(qkv, context, heads):
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    return {
        "query": query,
        "key": key,
        "value": value,
        "joined": context.cpu().transpose(1, 2).flatten(2),
    }
