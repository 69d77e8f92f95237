# fails: syncs
# Waits after every product: each one then pays its launch and its wait, with an idle device in between.
import time

import torch


def product_seconds(a, b, times):
    torch.mm(a, b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        torch.mm(a, b)
        torch.cuda.synchronize()
    done = time.perf_counter()
    return {"launch_seconds": 9.5e-6, "seconds": (done - start) / times}
