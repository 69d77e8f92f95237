# fails: parity
# The softmax runs over the rows of the batch instead of its classes.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = next(model.parameters()).device
    model.eval()
    return model(batch.to(device)).softmax(dim=0)
