"""Autocast: the products in float16, sums and exponents in float32."""

import torch
from torch import nn


def forward(
    encoder: nn.Module, head: nn.Module, batch: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Features (n, k) in float16, probabilities and energy in float32.

    Probabilities: (n, classes), the softmax of the head's output.
    Energy: (n,), the features' mean square.
    """
    device_type = batch.device.type
    with torch.autocast(device_type, dtype=torch.float16):
        features = encoder(batch)
        probabilities = torch.softmax(head(features), dim=1)
    energy = features.float().square().mean(dim=1)
    return {
        "features": features,
        "probabilities": probabilities,
        "energy": energy,
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = nn.Sequential(
        nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 24)
    ).to(device)
    head = nn.Linear(24, 5).to(device)
    batch = torch.randn(8, 16, device=device)
    for name, tensor in forward(encoder, head, batch).items():
        shape = tuple(tensor.shape)
        print(f"{name:14} {shape} {tensor.dtype} {tensor.device}")
