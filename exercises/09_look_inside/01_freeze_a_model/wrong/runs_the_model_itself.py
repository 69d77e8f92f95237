# fails: launches
# Opens both files to see that they can be read, and runs the model that it has anyway.
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
    torch.export.load("model.pt2")
    torch.jit.load("model.ts", map_location=device)
    with torch.no_grad():
        output = program.module().to(device)(fresh.to(device))
    return {"exported": output, "traced": output}
