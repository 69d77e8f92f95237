# fails: structure
# Returns the scores, and not where batch and weights are now: the caller moves them once more.


def there_and_back(batch, weights, device):
    return (batch.to(device) @ weights.to(device)).cpu()
