# fails: transfers
# Multiplies on the CPU: the weights come down, which is more than the scores would have been.
import torch


def there_and_back(batch, weights, device):
    scores = batch.cpu() @ weights.cpu()
    return {"batch": batch.to(device), "weights": weights.to(device), "scores": scores}
