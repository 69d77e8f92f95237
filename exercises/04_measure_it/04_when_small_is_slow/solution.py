"""When small is slow: the size at which the GPU starts to win."""

import time
from collections.abc import Callable

import torch


def seconds(
    product: Callable[[], torch.Tensor], wait: Callable[[], None]
) -> float:
    """The time of one product after a first one.

    `wait` returns when all work is done.
    """
    product()
    wait()
    start = time.perf_counter()
    product()
    wait()
    return time.perf_counter() - start


def crossover(sizes: list[int], device: torch.device) -> dict:
    """Seconds of n × n products on both, and where the GPU wins first.

    For each n of the ascending `sizes`; it wins at the first n for which
    it takes less time than the CPU.
    """
    cpu, gpu = [], []
    for size in sizes:
        x = torch.rand(size, size)
        y = torch.rand(size, size, device=device)
        cpu.append(seconds(lambda x=x: x @ x, lambda: None))
        gpu.append(seconds(lambda y=y: y @ y, torch.cuda.synchronize))
    faster = [
        size
        for size, on_cpu, on_gpu in zip(sizes, cpu, gpu, strict=True)
        if on_gpu < on_cpu
    ]
    return {
        "cpu": cpu,
        "gpu": gpu,
        "wins_at": faster[0] if faster else None,
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        sizes = [16, 64, 256, 512]
        result = crossover(sizes, torch.device("cuda"))
        rows = zip(sizes, result["cpu"], result["gpu"], strict=True)
        for size, cpu, gpu in rows:
            cpu_us, gpu_us = cpu * 1e6, gpu * 1e6
            print(f"{size:5}: CPU {cpu_us:8.1f} µs, GPU {gpu_us:8.1f} µs")
        print("The GPU wins at", result["wins_at"])
    else:
        print("This needs a CUDA device: try `gpututor run`.")
