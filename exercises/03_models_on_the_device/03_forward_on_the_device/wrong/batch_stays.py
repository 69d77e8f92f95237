# fails: runs
# Calls the model without moving the batch to it.
import torch


@torch.inference_mode()
def predict(model, batch):
    model.eval()
    return model(batch).softmax(dim=1)
