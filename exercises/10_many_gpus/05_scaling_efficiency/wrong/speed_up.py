# fails: efficiency
# Reports the speed-up, without dividing it by the number of GPUs.
import time

import torch


def seconds_on(gpus, batch, weight):
    shares = [rows.to(gpu) for rows, gpu in zip(batch.chunk(len(gpus)), gpus, strict=True)]
    weights = [weight.to(gpu) for gpu in gpus]
    elapsed = 0.0
    for _ in range(2):  # the first round warms up
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        start = time.perf_counter()
        parts = [rows @ factor for rows, factor in zip(shares, weights, strict=True)]
        parts = [part.to(gpus[0]) for part in parts]
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        elapsed = time.perf_counter() - start
    return elapsed


def scaling_efficiency(batch, weight):
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    single = seconds_on(gpus[:1], batch, weight)
    together = seconds_on(gpus, batch, weight)
    return {"one": single, "all": together, "efficiency": single / together}
