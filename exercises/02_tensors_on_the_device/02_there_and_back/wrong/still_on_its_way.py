# fails: races
# Returns the scores while their copy is under way: nothing waits until they are there.
import torch


def there_and_back(batch: torch.Tensor, weights: torch.Tensor, device: torch.device):
    batch, weights = batch.to(device), weights.to(device)
    scores = batch @ weights
    return {"batch": batch, "weights": weights, "scores": scores.to("cpu", non_blocking=True)}
