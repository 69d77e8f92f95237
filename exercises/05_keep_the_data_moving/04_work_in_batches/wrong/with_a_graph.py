# fails: memory
# Records a graph for gradients: each output keeps the hidden values of its batch.
import torch


def predict(model, samples, batch_size):
    device = next(model.parameters()).device
    return torch.cat([model(batch.to(device)) for batch in samples.split(batch_size)])
