"""The buffer that stayed: not learned, but part of the model."""

import torch
from torch import nn


class Standardize(nn.Module):
    """gain * (x - mean) / std; x is (rows, features), gain is learned."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self, mean: torch.Tensor, std: torch.Tensor, gain: torch.Tensor
    ) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.gain = nn.Parameter(gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gain * (x - self.mean) / self.std


def standardized(
    mean: torch.Tensor,
    std: torch.Tensor,
    gain: torch.Tensor,
    batches: list[torch.Tensor],
    device: torch.device,
) -> dict:
    """The layer on `device`, and its output for each batch.

    The batches (rows, features) are there already.
    """
    layer = Standardize(mean, std, gain).to(device)
    return {
        "layer": layer,
        "batches": [layer(batch) for batch in batches],
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seen = 5 + 2 * torch.randn(1000, 4)
    batches = [5 + 2 * torch.randn(8, 4, device=device) for _ in range(3)]
    mean, std, gain = seen.mean(0), seen.std(0), torch.ones(4)
    result = standardized(mean, std, gain, batches, device)
    learned = [name for name, _ in result["layer"].named_parameters()]
    print("learned:", learned)
    for name, tensor in result["layer"].state_dict().items():
        print(f"{name:6} {tensor.device}")
