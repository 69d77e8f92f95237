"""There and back: to the device and to the CPU, with no extra copies."""

import torch


def there_and_back(
    batch: torch.Tensor, weights: torch.Tensor, device: torch.device
) -> dict:
    """Score a batch on the device.

    batch (n, k) and weights (k, m), float32: each is on the CPU, or on
    `device` already. Returns
        "batch"    on `device`
        "weights"  on `device`
        "scores"   (n, m), on the CPU
    What is on `device` already comes back as the same object.
    """
    batch = batch.to(device)
    weights = weights.to(device)
    scores = batch @ weights
    return {"batch": batch, "weights": weights, "scores": scores.cpu()}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weights = torch.randn(5, 3, device=device)
    result = there_and_back(torch.randn(4, 5), weights, device)
    for name, tensor in result.items():
        print(name, tuple(tensor.shape), tensor.device)
    print("same weights object:", result["weights"] is weights)
