# fails: transfers
# Waits by copying each product to the CPU, and times that copy, too.
import time

import torch


def crossover(sizes, device):
    cpu, gpu, wins_at = [], [], None
    for size in sizes:
        x = torch.rand(size, size)
        y = torch.rand(size, size, device=device)
        x @ x
        start = time.perf_counter()
        x @ x
        cpu.append(time.perf_counter() - start)
        y @ y
        torch.cuda.synchronize()
        start = time.perf_counter()
        (y @ y).cpu()
        gpu.append(time.perf_counter() - start)
        if wins_at is None and gpu[-1] < cpu[-1]:
            wins_at = size
    return {"cpu": cpu, "gpu": gpu, "wins_at": wins_at}
