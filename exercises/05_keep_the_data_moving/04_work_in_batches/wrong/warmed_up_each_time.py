# fails: launches
# Runs the model twice for each batch, the first time to warm it up: a warm-up belongs before the loop, if anywhere.
import torch


@torch.inference_mode()
def predict(model, samples, batch_size):
    device = next(model.parameters()).device
    outputs = []
    for batch in samples.split(batch_size):
        batch = batch.to(device)
        model(batch)
        outputs.append(model(batch))
    return torch.cat(outputs)
