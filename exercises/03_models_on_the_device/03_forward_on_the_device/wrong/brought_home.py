# fails: placement
# Brings the result to the CPU, although the task does not ask for it.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = next(model.parameters()).device
    model.eval()
    return model(batch.to(device)).softmax(dim=1).cpu()
