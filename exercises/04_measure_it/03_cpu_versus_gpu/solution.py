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

    narrow_a, narrow_b = a.float().to(device), b.float().to(device)
    torch.mm(narrow_a, narrow_b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    on_gpu = torch.mm(narrow_a, narrow_b)
    torch.cuda.synchronize()
    gpu_seconds = time.perf_counter() - start

    product = on_gpu.cpu()
    difference = (exact - product.double()).abs()
    return {
        "product": product,
        "cpu_seconds": cpu_seconds,
        "gpu_seconds": gpu_seconds,
        "speedup": cpu_seconds / gpu_seconds,
        "largest_difference": difference.max().item(),
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
