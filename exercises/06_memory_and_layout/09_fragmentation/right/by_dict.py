# Pairs of position and text, sorted, and a dict of rows; the figures by segment.
import torch


def fragmentation(texts, embed):
    pairs = sorted(enumerate(texts), key=lambda pair: len(pair[1]), reverse=True)
    rows = {i: embed(text) for i, text in pairs}
    features = torch.stack([rows[i] for i in range(len(texts))])
    del rows
    segments = torch.cuda.memory_snapshot()
    free = sum(segment["total_size"] - segment["allocated_size"] for segment in segments)
    largest = max(b["size"] for segment in segments for b in segment["blocks"] if b["state"] != "active_allocated")
    return {"features": features, "free": free, "largest": largest}
