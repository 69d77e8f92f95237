# fails: structure
# Counts whole batches only: what is left at the end is never computed.
import torch


@torch.inference_mode()
def predict(model, samples, batch_size):
    device = next(model.parameters()).device
    outputs = []
    for number in range(max(1, len(samples) // batch_size)):
        batch = samples[number * batch_size : (number + 1) * batch_size]
        outputs.append(model(batch.to(device)))
    return torch.cat(outputs)
