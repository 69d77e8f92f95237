# fails: free
# Reads what the driver has free, not what is free in the cache.
import torch


def free_blocks():
    return [
        block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]


def fragmentation(texts, embed):
    rows = [None] * len(texts)
    for i in sorted(range(len(texts)), key=lambda i: -len(texts[i])):
        rows[i] = embed(texts[i])
    free = torch.cuda.mem_get_info()[0]
    return {"features": torch.stack(rows), "free": free, "largest": max(free_blocks())}
