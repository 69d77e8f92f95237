# An example that is moved, a size named as dynamic, and inference mode.
import torch
from torch import nn


def freeze(
    model: nn.Module, example: torch.Tensor, fresh: torch.Tensor, device: torch.device
) -> dict[str, torch.Tensor]:
    model.eval()
    with torch.inference_mode():
        torch.jit.save(torch.jit.trace(model, example), "model.ts")
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=sizes), "model.pt2")
    exported = torch.export.load("model.pt2").module()
    exported.to(device)
    traced = torch.jit.load("model.ts").to(device)
    batch = fresh.to(device)
    with torch.inference_mode():
        return {"exported": exported(batch), "traced": traced(batch)}
