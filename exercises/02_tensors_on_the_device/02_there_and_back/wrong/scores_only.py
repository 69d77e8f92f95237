# fails: structure
# Returns only the scores: the caller has to move batch and weights again.


def there_and_back(batch, weights, device):
    return (batch.to(device) @ weights.to(device)).cpu()
