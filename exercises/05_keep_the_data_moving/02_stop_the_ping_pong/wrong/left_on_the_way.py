# fails: races
# Returns the confidences while their copy to the host is under way: nothing waits for the copy.
import torch


def score(batch, weights):
    x = batch.to(weights.device)
    x = (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3)
    probabilities = torch.softmax(x.clamp(-2, 2) @ weights, dim=1)
    return {
        "probabilities": probabilities,
        "confidence": probabilities.amax(dim=1).to("cpu", non_blocking=True),
    }
