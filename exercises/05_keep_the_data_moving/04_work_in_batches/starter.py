"""Work in batches: few launches, each with enough to do."""

import torch
from torch import nn


def predict(
    model: nn.Module, samples: torch.Tensor, batch_size: int
) -> torch.Tensor:
    """The model's outputs (n, c), on its device, for CPU samples (n, d).

    It takes `batch_size` of them at a time.
    """
    device = next(model.parameters()).device
    # TODO: one sample at a time, and a graph that nothing needs.
    return torch.stack([model(sample.to(device)) for sample in samples])


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model.to(device).eval()
    outputs = predict(model, torch.randn(10, 4), batch_size=4)
    print(outputs.shape, outputs.device, outputs.requires_grad)
