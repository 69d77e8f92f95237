# fails: transfers
# Copies the weights to the CPU, computes there and moves the result: the device does nothing at all.
import torch


def score(batch, weights):
    x = (batch - batch.mean(dim=0)) / (batch.std(dim=0, correction=0) + 1e-3)
    probabilities = torch.softmax(x.clamp(-2, 2) @ weights.cpu(), dim=1)
    return {"probabilities": probabilities.to(weights.device), "confidence": probabilities.amax(dim=1)}
