# fails: parity
# Leaves the rows sorted by the lengths of their texts.
import torch


def free_blocks():
    return [
        block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]


def fragmentation(texts, embed):
    features = torch.stack([embed(text) for text in sorted(texts, key=len, reverse=True)])
    return {"features": features, "free": sum(free_blocks()), "largest": max(free_blocks())}
