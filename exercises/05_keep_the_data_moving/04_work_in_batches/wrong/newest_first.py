# fails: parity
# Puts each new batch in front: the batches come back in the wrong order.
import torch


@torch.inference_mode()
def predict(model, samples, batch_size):
    device = next(model.parameters()).device
    outputs = []
    for batch in samples.split(batch_size):
        outputs.insert(0, model(batch.to(device)))
    return torch.cat(outputs)
