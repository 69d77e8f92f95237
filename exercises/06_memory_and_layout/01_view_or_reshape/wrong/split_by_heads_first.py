# fails: parity
# Takes the last dimension for (heads, 3, size), the order of another model.
def split_and_join(qkv, context, heads):
    by_head = qkv.unflatten(-1, (heads, 3, -1)).permute(3, 0, 2, 1, 4)
    joined = context.transpose(1, 2).flatten(2)
    return {
        "query": by_head[0],
        "key": by_head[1],
        "value": by_head[2],
        "joined": joined,
    }
