# fails: identity
# Moves both tensors to the CPU first, so that they are in one place, and then to the device.
import torch


def there_and_back(batch, weights, device):
    batch = batch.cpu().to(device)
    weights = weights.cpu().to(device)
    return {"batch": batch, "weights": weights, "scores": (batch @ weights).cpu()}
