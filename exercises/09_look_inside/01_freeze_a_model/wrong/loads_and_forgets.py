# fails: loaded
# Opens both files and runs the model itself, twice: what was loaded is thrown away.
import torch


def freeze(model, example, fresh, device):
    model.eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(model, (example,), dynamic_shapes=({0: rows},))
    torch.export.save(program, "model.pt2")
    torch.jit.trace(model, example).save("model.ts")
    torch.export.load("model.pt2")
    torch.jit.load("model.ts")
    model.to(device)
    with torch.no_grad():
        return {"exported": model(fresh.to(device)), "traced": model(fresh.to(device))}
