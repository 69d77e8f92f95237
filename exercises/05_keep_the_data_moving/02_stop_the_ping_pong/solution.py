"""Stop the ping-pong: a chain of operations that stays on the device."""

import torch


def score(
    batch: torch.Tensor, weights: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Class probabilities, and each row's largest one.

    batch (n, d), float32, is on the CPU, `weights` (d, c) on the device.
    One copy goes to the device, one to the host. Returns
        "probabilities"  (n, c), on the device of `weights`
        "confidence"     (n,), the largest of each row, on the CPU
    """
    on_device = batch.to(weights.device)
    spread = on_device.std(dim=0, correction=0)
    standard = (on_device - on_device.mean(dim=0)) / (spread + 1e-3)
    probabilities = torch.softmax(standard.clamp(-2, 2) @ weights, dim=1)
    return {
        "probabilities": probabilities,
        "confidence": probabilities.amax(dim=1).cpu(),
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    result = score(torch.randn(4, 6), torch.randn(6, 3, device=device))
    print(result["probabilities"].device, result["probabilities"].shape)
    print(result["confidence"])
