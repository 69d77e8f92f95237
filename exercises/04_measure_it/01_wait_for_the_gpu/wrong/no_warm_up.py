# fails: warm_up
# Times the first product, including all that PyTorch loads for it.
import time

import torch


def product_seconds(a, b, times):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b)
    launched = time.perf_counter()
    torch.cuda.synchronize()
    done = time.perf_counter()
    return {"launch_seconds": (launched - start) / times, "seconds": (done - start) / times}
