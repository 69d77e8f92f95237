# Products by einsum, which runs bmm; first all on the CPU, then all on the GPU.
import time

import torch


def product(x):
    return torch.einsum("ij,jk->ik", x, x)


def seconds(size, device, wait):
    x = torch.rand(size, size, device=device)
    product(x)
    wait()
    start = time.perf_counter()
    product(x)
    wait()
    return time.perf_counter() - start


def crossover(sizes, device):
    cpu = [seconds(size, "cpu", lambda: None) for size in sizes]
    gpu = [seconds(size, device, torch.cuda.synchronize) for size in sizes]
    wins = [size for size, on_cpu, on_gpu in zip(sizes, cpu, gpu, strict=True) if on_gpu < on_cpu]
    return {"cpu": cpu, "gpu": gpu, "wins_at": wins[0] if wins else None}
