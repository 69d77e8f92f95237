"""When small is slow: the size at which the GPU starts to win."""

import time

import torch


def crossover(sizes: list[int], device: torch.device) -> dict:
    """Seconds of n × n products for each n of the ascending `sizes`, on both, and the first n at which the GPU wins."""
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
        print("There is no CUDA device here. `gpututor run` runs this file on a virtual one.")
