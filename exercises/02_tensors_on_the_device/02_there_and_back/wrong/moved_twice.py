# fails: transfers
# Moves each tensor where it is used, and again where it is returned.
import torch


def there_and_back(batch, weights, device):
    scores = (batch.to(device) @ weights.to(device)).cpu()
    return {"batch": batch.to(device), "weights": weights.to(device), "scores": scores}
