# Sorts the positions by torch.argsort, fills a tensor, and reads what is free from the meters.
import torch


def fragmentation(texts, embed):
    order = torch.tensor([len(text) for text in texts]).argsort(descending=True).tolist()
    features = torch.empty(len(texts), texts[0].shape[1], device=texts[0].device)
    for i in order:
        features[i] = embed(texts[i])
    free = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    largest = 0
    for segment in torch.cuda.memory_snapshot():
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                largest = max(largest, block["size"])
    return {"features": features, "free": free, "largest": largest}
