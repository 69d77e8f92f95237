# fails: placement
# Moves everything to the device and forgets to bring the scores back.
import torch


def there_and_back(batch, weights, device):
    batch = batch.to(device)
    weights = weights.to(device)
    return {"batch": batch, "weights": weights, "scores": batch @ weights}
