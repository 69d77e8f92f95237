# fails: launches
# Copies once each way, but NumPy standardizes and clips on the CPU before the batch is moved.
import numpy as np
import torch


def score(batch, weights):
    values = batch.numpy()
    values = np.clip((values - values.mean(axis=0)) / (values.std(axis=0) + 1e-3), -2, 2)
    probabilities = torch.softmax(torch.from_numpy(values).to(weights.device) @ weights, dim=1)
    return {"probabilities": probabilities, "confidence": probabilities.amax(dim=1).cpu()}
