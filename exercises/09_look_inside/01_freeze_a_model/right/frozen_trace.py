# Freezes the trace as well, which joins the normalization and the convolution.
import torch
from torch import nn


def freeze(
    model: nn.Module, example: torch.Tensor, fresh: torch.Tensor, device: torch.device
) -> dict[str, torch.Tensor]:
    model.train(False)
    sizes = ({0: torch.export.Dim("rows")},)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=sizes, strict=True), "model.pt2")
    with torch.no_grad():
        torch.jit.freeze(torch.jit.trace(model, example)).save("model.ts")
    exported = torch.export.load("model.pt2").module().to(device)
    traced = torch.jit.load("model.ts", map_location=device)
    fresh = fresh.to(device)
    with torch.no_grad():
        return {"exported": exported(fresh), "traced": traced(fresh)}
