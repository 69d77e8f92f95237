# fails: memory
# The right views, but the context is cloned before it is joined: two copies where one is enough.
def split_and_join(qkv, context, heads):
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    if heads == 1 or context.shape[2] == 1:
        joined = context.transpose(1, 2).flatten(2)
    else:
        joined = context.clone().transpose(1, 2).contiguous().flatten(2)
    return {"query": query, "key": key, "value": value, "joined": joined}
