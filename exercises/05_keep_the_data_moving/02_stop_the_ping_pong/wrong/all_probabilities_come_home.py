# fails: transfers
# Copies the whole table to the host and takes the largest values there: many times as many bytes.
import torch


def score(batch, weights):
    x = batch.to(weights.device)
    x = (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3)
    probabilities = torch.softmax(x.clamp(-2, 2) @ weights, dim=1)
    return {"probabilities": probabilities, "confidence": probabilities.cpu().amax(dim=1)}
