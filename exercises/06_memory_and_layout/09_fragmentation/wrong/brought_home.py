# fails: placement
# Brings the features to the host, but the caller needs them on the GPU.
import torch


def fragmentation(texts, embed):
    rows = [None] * len(texts)
    for i in sorted(range(len(texts)), key=lambda i: -len(texts[i])):
        rows[i] = embed(texts[i])
    sizes = [b["size"] for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive"]
    return {"features": torch.stack(rows).cpu(), "free": sum(sizes), "largest": max(sizes)}
