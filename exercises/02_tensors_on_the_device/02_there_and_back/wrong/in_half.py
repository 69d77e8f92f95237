# fails: parity
# Multiplies in half precision, which is faster but leaves three digits of the scores.


def there_and_back(batch, weights, device):
    batch = batch.to(device)
    weights = weights.to(device)
    scores = batch.half() @ weights.half()
    return {"batch": batch, "weights": weights, "scores": scores.float().cpu()}
