# fails: placement
# Copies both results to the CPU, but the probabilities belong on the device.
import torch


def score(batch, weights):
    x = batch.to(weights.device)
    x = (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3)
    probabilities = torch.softmax(x.clamp(-2, 2) @ weights, dim=1).cpu()
    return {"probabilities": probabilities, "confidence": probabilities.amax(dim=1)}
