# fails: parity
# Rounds the product to float16 before the copy to the CPU, to save bytes.
import time

import torch


def cpu_versus_gpu(a, b, device):
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

    product = on_gpu.half().cpu().float()
    return {
        "product": product,
        "cpu_seconds": cpu_seconds,
        "gpu_seconds": gpu_seconds,
        "speedup": cpu_seconds / gpu_seconds,
        "largest_difference": (exact - product.double()).abs().max().item(),
    }
