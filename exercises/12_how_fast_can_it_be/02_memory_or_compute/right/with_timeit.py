# Times ten calls and a wait with timeit, and compares the time with the least times of arithmetic and memory.
from timeit import timeit

import torch


def what_limits(work, flops, moved, peak_flops, bandwidth):
    def ten_calls():
        for _ in range(10):
            work()
        torch.cuda.synchronize()

    work()
    torch.cuda.synchronize()
    seconds = timeit(ten_calls, number=1) / 10
    compute_s, memory_s = flops / peak_flops, moved / bandwidth
    if max(compute_s, memory_s) < seconds / 4:
        limit = "launch"
    else:
        limit = "compute" if compute_s > memory_s else "memory"
    return {
        "seconds": seconds,
        "flops_share": compute_s / seconds,
        "bandwidth_share": memory_s / seconds,
        "limit": limit,
    }
