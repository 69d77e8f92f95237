# fails: files
# Saves a state dict under the name of a frozen model.
import torch
from torch import nn


def freeze(
    model: nn.Module, example: torch.Tensor, fresh: torch.Tensor, device: torch.device
) -> dict[str, torch.Tensor]:
    model.eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(model, (example,), dynamic_shapes=({0: rows},))
    torch.export.save(program, "model.pt2")
    torch.save(model.state_dict(), "model.ts")

    exported = torch.export.load("model.pt2").module().to(device)
    traced = model.to(device)
    fresh = fresh.to(device)
    with torch.no_grad():
        return {"exported": exported(fresh), "traced": traced(fresh)}
