# fails: overlap
# Launches the next copy before the wait, so that the work also waits for a batch it does not need.
import torch


def forward(x, layers):
    for layer in layers:
        x = torch.tanh(x @ layer)
    return x


def prefetched(batches, layers):
    device = layers[0].device
    computing, copying = torch.cuda.current_stream(), torch.cuda.Stream()
    results, following = [], None
    for number in range(-1, len(batches)):
        x = following
        if number + 1 < len(batches):
            copying.wait_stream(computing)
            with torch.cuda.stream(copying):
                following = batches[number + 1].to(device, non_blocking=True)
        computing.wait_stream(copying)
        if x is not None:
            x.record_stream(computing)
            results.append(forward(x, layers))
    return torch.cat(results)
