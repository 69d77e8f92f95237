# fails: transfers
# A copy and a pass of the model for each sample.
import torch


@torch.inference_mode()
def predict(model, samples, batch_size):
    device = next(model.parameters()).device
    return torch.stack([model(sample.to(device)) for sample in samples])
