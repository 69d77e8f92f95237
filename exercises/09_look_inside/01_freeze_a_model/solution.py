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
    model.eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(
        model, (example,), dynamic_shapes=({0: rows},)
    )
    torch.export.save(program, "model.pt2")
    torch.jit.trace(model, example).save("model.ts")

    exported = torch.export.load("model.pt2").module().to(device)
    traced = torch.jit.load("model.ts", map_location=device)
    fresh = fresh.to(device)
    with torch.no_grad():
        return {"exported": exported(fresh), "traced": traced(fresh)}


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
        true = model.eval()(fresh)
    for name, output in outputs.items():
        same = torch.allclose(output.cpu(), true, atol=1e-5)
        print(name, tuple(output.shape), output.device, same)
