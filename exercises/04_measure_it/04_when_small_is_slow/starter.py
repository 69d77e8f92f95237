"""When small is slow: the size at which the GPU starts to win."""

import time

import torch


def crossover(sizes: list[int], device: torch.device) -> dict:
    """Seconds of n × n products on both, and where the GPU wins first.

    For each n of the ascending `sizes`; it wins at the first n for which
    it takes less time than the CPU.
    """
    cpu, gpu = [], []
    for size in sizes:
        x = torch.rand(size, size)
        start = time.perf_counter()
        x @ x
        cpu.append(time.perf_counter() - start)
        # TODO: warm up, time the same on the device, and find the size.
    return {"cpu": cpu, "gpu": gpu, "wins_at": None}


if __name__ == "__main__":
    if torch.cuda.is_available():
        sizes = [16, 64, 256, 512]
        result = crossover(sizes, torch.device("cuda"))
        print(result)
    else:
        print("This needs a CUDA device: try `gpututor run`.")
