# fails: measurement
# Returns the time of all products instead of the average.
import time

import torch


def product_seconds(a, b, times):
    torch.mm(a, b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b)
    launched = time.perf_counter()
    torch.cuda.synchronize()
    return {"launch_seconds": launched - start, "seconds": time.perf_counter() - start}
