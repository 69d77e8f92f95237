# fails: transfers
# Runs on the device, and copies one output to the host and back.
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

    exported = torch.export.load("model.pt2").module().to(device)
    traced = torch.jit.load("model.ts", map_location=device)
    fresh = fresh.to(device)
    with torch.no_grad():
        return {"exported": exported(fresh), "traced": traced(fresh).cpu().to(device)}
