# fails: gathered
# Leaves the parts where they were computed: the price of two GPUs is not paid.
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
        _ = [rows @ factor for rows, factor in zip(shares, weights, strict=True)]
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        elapsed = time.perf_counter() - start
    return elapsed


def scaling_efficiency(batch, weight):
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    single = seconds_on(gpus[:1], batch, weight)
    together = seconds_on(gpus, batch, weight)
    return {"one": single, "all": together, "efficiency": single / (len(gpus) * together)}
