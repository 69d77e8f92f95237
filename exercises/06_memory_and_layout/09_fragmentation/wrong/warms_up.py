# fails: once
# Embeds the longest text once more than needed, only to get its segment into the cache.
import torch


def fragmentation(texts, embed):
    embed(max(texts, key=len))
    features = torch.stack([embed(text) for text in texts])
    sizes = [b["size"] for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive"]
    return {"features": features, "free": sum(sizes), "largest": max(sizes)}
