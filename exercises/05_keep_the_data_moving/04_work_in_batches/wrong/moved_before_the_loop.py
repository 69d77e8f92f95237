# fails: memory
# All samples are on the device before the first of them is needed.
import torch


@torch.inference_mode()
def predict(model, samples, batch_size):
    device = next(model.parameters()).device
    batches = [batch.to(device) for batch in samples.split(batch_size)]
    return torch.cat([model(batch) for batch in batches])
