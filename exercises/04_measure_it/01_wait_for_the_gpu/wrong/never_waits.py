# fails: measurement
# Reads the clock when the launches have returned: the same figure for all sizes.
import time

import torch


def product_seconds(a, b, times):
    torch.mm(a, b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b)
    seconds = (time.perf_counter() - start) / times
    return {"launch_seconds": seconds, "seconds": seconds}
