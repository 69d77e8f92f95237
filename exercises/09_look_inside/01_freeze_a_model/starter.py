"""Export and trace a model: program and weights in one file."""

import torch
from torch import nn


def freeze(
    model: nn.Module,
    example: torch.Tensor,
    fresh: torch.Tensor,
    device: torch.device,
) -> dict[str, torch.Tensor]:
    """Freeze the model twice; return both outputs for `fresh`.

    It writes model.pt2 and model.ts, and loads both again.
    fresh: (n, 3, h, w).
    """
    # TODO: export and trace, save, load, and run what was loaded.
    output = model.to(device)(fresh.to(device)).detach()
    return {"exported": output, "traced": output}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    fresh = torch.randn(7, 3, 16, 16)
    outputs = freeze(model, torch.randn(4, 3, 16, 16), fresh, device)
    with torch.no_grad():
        true = model.eval().cpu()(fresh)
    for name, output in outputs.items():
        same = torch.allclose(output.cpu(), true, atol=1e-5)
        print(name, tuple(output.shape), output.device, same)
