# Stacks the rows as they come, longest text first, and puts them in order with one index.
import torch


def fragmentation(texts, embed):
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
    stacked = torch.stack([embed(texts[i]) for i in order])
    back = [order.index(i) for i in range(len(texts))]
    features = stacked[back]
    here = [s for s in torch.cuda.memory_snapshot() if s["device"] == features.device.index]
    free = [b["size"] for s in here for b in s["blocks"] if b["state"] == "inactive"]
    return {"features": features, "free": sum(free), "largest": max(free)}
