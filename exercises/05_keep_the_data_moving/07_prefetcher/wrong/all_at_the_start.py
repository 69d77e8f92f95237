# fails: memory
# Copies everything ahead: the copies overlap, and all batches are on the device at once.
import torch


def forward(x, layers):
    for layer in layers:
        x = torch.tanh(x @ layer)
    return x


def prefetched(batches, layers):
    device = layers[0].device
    computing, copying = torch.cuda.current_stream(), torch.cuda.Stream()
    moved, arrived = [], []
    for batch in batches:
        with torch.cuda.stream(copying):
            moved.append(batch.to(device, non_blocking=True))
            arrived.append(copying.record_event())
    results = []
    for x, event in zip(moved, arrived, strict=True):
        computing.wait_event(event)
        x.record_stream(computing)
        results.append(forward(x, layers))
    return torch.cat(results)
