# fails: runs
# view() cannot join two dimensions that a transpose has moved apart.
def split_and_join(qkv, context, heads):
    batch, time, width = qkv.shape
    size = width // 3 // heads
    query, key, value = (part.unflatten(-1, (heads, size)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    return {
        "query": query,
        "key": key,
        "value": value,
        "joined": context.transpose(1, 2).view(batch, time, -1),
    }
