# fails: free
# Reads the snapshot before the loop.
import torch


def free_blocks():
    return [
        block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]


def fragmentation(texts, embed):
    sizes = free_blocks()
    rows = [None] * len(texts)
    for i in sorted(range(len(texts)), key=lambda i: -len(texts[i])):
        rows[i] = embed(texts[i])
    return {"features": torch.stack(rows), "free": sum(sizes), "largest": max(sizes)}
