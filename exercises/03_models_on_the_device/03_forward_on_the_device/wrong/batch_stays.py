# fails: runs
# Calls the model with the batch where it happens to be.
import torch


@torch.inference_mode()
def predict(model, batch):
    model.eval()
    return model(batch).softmax(dim=1)
