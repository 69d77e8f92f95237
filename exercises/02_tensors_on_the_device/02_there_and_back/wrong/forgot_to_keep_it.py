# fails: runs
# Calls .to() and throws the result away: the tensors stay where they were.
import torch


def there_and_back(batch, weights, device):
    batch.to(device)
    weights.to(device)
    scores = batch @ weights
    return {"batch": batch, "weights": weights, "scores": scores.cpu()}
