"""Prefetcher: the next batch's copy runs during this batch's work."""

import torch


def forward(x: torch.Tensor, layers: list[torch.Tensor]) -> torch.Tensor:
    """The work on one batch: a few products, one after the other."""
    for layer in layers:
        x = torch.tanh(x @ layer)
    return x


def prefetched(
    batches: list[torch.Tensor], layers: list[torch.Tensor]
) -> torch.Tensor:
    """`forward` of all batches, joined to (all rows, c).

    The result is on the device of the layers.
    batches: (n, d) each, in pinned memory. Batch i + 1 is copied on a
    side stream while batch i is computed.
    """
    device = layers[0].device
    computing = torch.cuda.current_stream(device)
    copying = torch.cuda.Stream(device)

    def fetch(number: int) -> torch.Tensor:
        with torch.cuda.stream(copying):
            return batches[number].to(device, non_blocking=True)

    results = []
    following = fetch(0)
    for number in range(len(batches)):
        computing.wait_stream(copying)
        x = following
        x.record_stream(computing)
        if number + 1 < len(batches):
            following = fetch(number + 1)
        results.append(forward(x, layers))
    return torch.cat(results)


if __name__ == "__main__":
    if torch.cuda.is_available():
        layers = [torch.randn(8, 8, device="cuda") for _ in range(3)]
        batches = [torch.randn(4, 8).pin_memory() for _ in range(5)]
        print(prefetched(batches, layers).shape)
    else:
        print("Streams need a CUDA device: try `gpututor run`.")
