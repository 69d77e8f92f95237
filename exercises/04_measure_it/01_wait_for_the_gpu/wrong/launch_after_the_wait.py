# fails: launch
# Reads the clock for the launches after the wait: both figures are the same.
import time

import torch


def product_seconds(a, b, times):
    torch.mm(a, b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b)
    torch.cuda.synchronize()
    launched = done = time.perf_counter()
    return {"launch_seconds": (launched - start) / times, "seconds": (done - start) / times}
