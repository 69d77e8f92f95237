# fails: structure
# Returns the most likely class of each row: its probability is lost.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = next(model.parameters()).device
    model.eval()
    return model(batch.to(device)).softmax(dim=1).argmax(dim=1)
