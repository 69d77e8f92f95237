# fails: aliasing
# Calls contiguous() after each transpose "to be safe": three copies in each layer.
def split_and_join(qkv, context, heads):
    batch, time, width = qkv.shape
    size = width // 3 // heads
    parts = [part.reshape(batch, time, heads, size).transpose(1, 2).contiguous() for part in qkv.chunk(3, dim=-1)]
    joined = context.transpose(1, 2).reshape(batch, time, heads * size)
    return {"query": parts[0], "key": parts[1], "value": parts[2], "joined": joined}
