# fails: transfers
# Only the clipping is left in NumPy: one more trip to the host and back.
import numpy as np
import torch


def score(batch, weights):
    x = batch.to(weights.device)
    x = (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3)
    x = torch.from_numpy(np.clip(x.cpu().numpy(), -2, 2)).to(weights.device)
    probabilities = torch.softmax(x @ weights, dim=1)
    return {"probabilities": probabilities, "confidence": probabilities.amax(dim=1).cpu()}
