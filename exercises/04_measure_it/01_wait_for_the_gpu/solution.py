"""Wait for the GPU: the time of a launch, and the time of the work."""

import time

import torch


def product_seconds(
    a: torch.Tensor, b: torch.Tensor, times: int
) -> dict[str, float]:
    """Average seconds of launching torch.mm(a, b), and of finishing it.

    a: (m, k), b: (k, n).
    """
    torch.mm(a, b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b)
    launched = time.perf_counter()
    torch.cuda.synchronize()
    done = time.perf_counter()
    return {
        "launch_seconds": (launched - start) / times,
        "seconds": (done - start) / times,
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        for size in (256, 512, 1024):
            a, b = torch.randn(2, size, size, device="cuda")
            figures = product_seconds(a, b, 10)
            launch = figures["launch_seconds"] * 1e6
            done = figures["seconds"] * 1e6
            print(f"{size:5}: {launch:7.1f} µs to launch, {done:7.1f} µs")
    else:
        print("This needs a CUDA device: try `gpututor run`.")
