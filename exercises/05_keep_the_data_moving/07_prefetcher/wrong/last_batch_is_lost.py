# fails: structure
# Stops one round too early: the batch that was fetched last is never computed.
import torch


def forward(x, layers):
    for layer in layers:
        x = torch.tanh(x @ layer)
    return x


def prefetched(batches, layers):
    device = layers[0].device
    computing, copying = torch.cuda.current_stream(), torch.cuda.Stream()

    def fetch(number):
        with torch.cuda.stream(copying):
            return batches[number].to(device, non_blocking=True)

    results = []
    following = fetch(0)
    for number in range(len(batches) - 1):
        computing.wait_stream(copying)
        x = following
        x.record_stream(computing)
        following = fetch(number + 1)
        results.append(forward(x, layers))
    return torch.cat(results)
