# fails: syncs
# A test for nan was left in: reading its answer makes the host wait in each layer.
def split_and_join(qkv, context, heads):
    if qkv.isnan().any():
        raise ValueError("there are nans")
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    return {
        "query": query,
        "key": key,
        "value": value,
        "joined": context.transpose(1, 2).flatten(2),
    }
