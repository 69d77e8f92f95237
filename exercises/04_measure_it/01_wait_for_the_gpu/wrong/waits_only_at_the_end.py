# fails: measurement
# The warm-up still runs when the clock starts, and is timed too.
import time

import torch


def product_seconds(a, b, times):
    torch.mm(a, b)
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b)
    launched = time.perf_counter()
    torch.cuda.synchronize()
    done = time.perf_counter()
    return {"launch_seconds": (launched - start) / times, "seconds": (done - start) / times}
