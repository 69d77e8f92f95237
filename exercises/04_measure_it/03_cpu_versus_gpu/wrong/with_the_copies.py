# fails: gpu_time
# Times the copies to the device and back along with the product.
import time

import torch


def cpu_versus_gpu(a, b, device):
    torch.mm(a, b)
    start = time.perf_counter()
    exact = torch.mm(a, b)
    cpu_seconds = time.perf_counter() - start

    start = time.perf_counter()
    narrow_a, narrow_b = a.float().to(device), b.float().to(device)
    on_gpu = torch.mm(narrow_a, narrow_b)
    torch.cuda.synchronize()
    gpu_seconds = time.perf_counter() - start

    product = on_gpu.cpu()
    return {
        "product": product,
        "cpu_seconds": cpu_seconds,
        "gpu_seconds": gpu_seconds,
        "speedup": cpu_seconds / gpu_seconds,
        "largest_difference": (exact - product.double()).abs().max().item(),
    }
