# fails: syncs
# Empties the cache after each text: it stays small, and every step waits and asks the driver.
import torch


def free_blocks():
    return [
        block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]


def fragmentation(texts, embed):
    rows = []
    for text in texts:
        rows.append(embed(text))
        torch.cuda.empty_cache()
    return {"features": torch.stack(rows), "free": sum(free_blocks()), "largest": max(free_blocks())}
