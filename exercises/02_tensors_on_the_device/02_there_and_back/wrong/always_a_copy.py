# fails: identity
# copy=True makes a second tensor even when the first one is on the device already.
import torch


def there_and_back(batch, weights, device):
    batch = batch.to(device, copy=True)
    weights = weights.to(device, copy=True)
    return {"batch": batch, "weights": weights, "scores": (batch @ weights).cpu()}
