# fails: structure
# Cuts the times to whole seconds, as an int: both are 0.
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
    done = time.perf_counter()
    return {"launch_seconds": int(launched - start) // times, "seconds": int(done - start) // times}
