# fails: placement
# Brings the result to the CPU, which nobody asked for.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = next(model.parameters()).device
    model.eval()
    return model(batch.to(device)).softmax(dim=1).cpu()
