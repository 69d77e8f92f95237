# fails: parity
# Goes straight to the wanted shape: heads and times are mixed up, and nothing complains.
def split_and_join(qkv, context, heads):
    batch, time, width = qkv.shape
    size = width // 3 // heads
    query, key, value = (part.reshape(batch, heads, time, size) for part in qkv.chunk(3, dim=-1))
    return {
        "query": query,
        "key": key,
        "value": value,
        "joined": context.reshape(batch, time, heads * size),
    }
