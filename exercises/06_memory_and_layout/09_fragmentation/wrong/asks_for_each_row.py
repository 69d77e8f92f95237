# fails: syncs
# Prints the progress with a value of each row: the host waits for every text.
import torch


def fragmentation(texts, embed):
    rows = [None] * len(texts)
    for i in sorted(range(len(texts)), key=lambda i: -len(texts[i])):
        rows[i] = embed(texts[i])
        print(f"text {i}: {rows[i].mean():.3f}")
    sizes = [b["size"] for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive"]
    return {"features": torch.stack(rows), "free": sum(sizes), "largest": max(sizes)}
