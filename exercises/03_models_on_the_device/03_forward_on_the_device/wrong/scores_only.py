# fails: parity
# Returns the scores, which are not probabilities.
import torch


@torch.inference_mode()
def predict(model, batch):
    device = next(model.parameters()).device
    model.eval()
    return model(batch.to(device))
