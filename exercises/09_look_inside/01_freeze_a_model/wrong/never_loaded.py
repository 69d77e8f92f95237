# fails: source
# Writes both files, and runs the model itself.
import torch
from torch import nn


def freeze(
    model: nn.Module, example: torch.Tensor, fresh: torch.Tensor, device: torch.device
) -> dict[str, torch.Tensor]:
    model.eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(model, (example,), dynamic_shapes=({0: rows},))
    torch.export.save(program, "model.pt2")
    torch.jit.trace(model, example).save("model.ts")

    exported = model.to(device)
    traced = model
    fresh = fresh.to(device)
    with torch.no_grad():
        return {"exported": exported(fresh), "traced": traced(fresh)}
