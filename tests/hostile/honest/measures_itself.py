# attacks: scores
# tries: nothing: it times itself and waits for the device
# ends: passed
# isolation: both
import time

import torch


def scores(table, queries, device):
    started = time.perf_counter()
    result = (table.to(device) @ queries.to(device).T).relu()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    print(f"{time.perf_counter() - started:.6f} s")
    return result
