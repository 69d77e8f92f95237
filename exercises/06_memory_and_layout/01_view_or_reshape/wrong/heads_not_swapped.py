# fails: structure
# Splits off the heads, but does not move them before the time dimension.
def split_and_join(qkv, context, heads):
    query, key, value = (part.unflatten(-1, (heads, -1)) for part in qkv.chunk(3, dim=-1))
    return {
        "query": query,
        "key": key,
        "value": value,
        "joined": context.transpose(1, 2).flatten(2),
    }
