# fails: overlap
# All copies are asynchronous, but on the stream that computes: each waits for the work before it.
import torch


def forward(x, layers):
    for layer in layers:
        x = torch.tanh(x @ layer)
    return x


def prefetched(batches, layers):
    device = layers[0].device
    results = []
    for batch in batches:
        x = batch.to(device, non_blocking=True)
        results.append(forward(x, layers))
    return torch.cat(results)
