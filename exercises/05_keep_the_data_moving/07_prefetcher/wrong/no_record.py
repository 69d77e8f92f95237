# fails: races
# Without record_stream the next copy may be given the memory of a batch that is still read.
import torch


def forward(x, layers):
    for layer in layers:
        x = torch.tanh(x @ layer)
    return x


def prefetched(batches, layers):
    device = layers[0].device
    computing, copying = torch.cuda.current_stream(), torch.cuda.Stream()
    results = []
    for batch in batches:
        with torch.cuda.stream(copying):
            x = batch.to(device, non_blocking=True)
        computing.wait_stream(copying)
        results.append(forward(x, layers))
    return torch.cat(results)
