# fails: reserved
# Sorts the texts, but the shortest comes first: the worst order of all.
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
    for i in sorted(range(len(texts)), key=lambda i: len(texts[i])):
        rows[i] = embed(texts[i])
    return {"features": torch.stack(rows), "free": sum(free_blocks()), "largest": max(free_blocks())}
