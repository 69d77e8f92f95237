# fails: syncs
# Waits after the product "so that it is ready": operations on one device are in order anyway.
import torch


def score(batch, weights):
    x = batch.to(weights.device)
    x = (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3)
    products = x.clamp(-2, 2) @ weights
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    probabilities = torch.softmax(products, dim=1)
    return {"probabilities": probabilities, "confidence": probabilities.amax(dim=1).cpu()}
