"""Events: the device keeps the time, and the host waits once."""

import torch


def two_layers(
    batch: torch.Tensor, first: torch.Tensor, second: torch.Tensor
) -> dict:
    """Scores (rows, classes) of batch (rows, features), and two times.

    The times are the seconds of each product, by CUDA events.
    """
    start, between, end = (
        torch.cuda.Event(enable_timing=True) for _ in range(3)
    )
    start.record()
    hidden = batch @ first
    between.record()
    scores = hidden @ second
    end.record()
    end.synchronize()
    return {
        "scores": scores,
        "first": start.elapsed_time(between) / 1e3,
        "second": between.elapsed_time(end) / 1e3,
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        batch = torch.randn(512, 1024, device="cuda")
        first = torch.randn(1024, 512, device="cuda")
        second = torch.randn(512, 256, device="cuda")
        result = two_layers(batch, first, second)
        for layer in ("first", "second"):
            print(f"{layer} {result[layer] * 1e6:.1f} µs")
    else:
        print("This needs a CUDA device: try `gpututor run`.")
