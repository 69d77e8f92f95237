"""CPU versus GPU: how much faster, and how far off."""

import time

import torch


def cpu_versus_gpu(
    a: torch.Tensor, b: torch.Tensor, device: torch.device
) -> dict:
    """Times of torch.mm(a, b), and how far the two products differ.

    a: (m, k), b: (k, n). In float64 on the CPU, in float32 on `device`.
    """
    torch.mm(a, b)
    start = time.perf_counter()
    exact = torch.mm(a, b)
    cpu_seconds = time.perf_counter() - start

    # TODO: the product on the device, its time, and the two comparisons.
    return {
        "product": exact.float(),
        "cpu_seconds": cpu_seconds,
        "gpu_seconds": cpu_seconds,
        "speedup": 1.0,
        "largest_difference": 0.0,
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        for size in (64, 256, 1024):
            a, b = torch.rand(2, size, size, dtype=torch.float64)
            figures = cpu_versus_gpu(a, b, torch.device("cuda"))
            speedup = figures["speedup"]
            off = figures["largest_difference"]
            print(f"{size:5}: {speedup:6.2f} x as fast, off by {off:.1e}")
    else:
        print("This needs a CUDA device: try `gpututor run`.")
