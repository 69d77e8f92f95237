# Warms up with a forward pass and two steps, and measures the memory of one step and the mean time of more.
import time

import torch
from torch import nn


def step(model, batch, target, enabled):
    with torch.autocast("cuda", dtype=torch.float16, enabled=enabled):
        loss = nn.functional.mse_loss(model(batch), target)
    loss.backward()
    model.zero_grad()


def measure(model, batch, target, enabled, steps=3):
    with torch.autocast("cuda", dtype=torch.float16, enabled=enabled):
        model(batch)
    for _ in range(2):
        step(model, batch, target, enabled)
    torch.cuda.reset_peak_memory_stats()
    step(model, batch, target, enabled)
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step(model, batch, target, enabled)
    torch.cuda.synchronize()
    return {
        "seconds": (time.perf_counter() - start) / steps,
        "peak_bytes": peak,
    }


def measure_amp(model, batch, target):
    wide = measure(model, batch, target, enabled=False)
    narrow = measure(model, batch, target, enabled=True)
    return {
        "float32": wide,
        "autocast": narrow,
        "speed_up": wide["seconds"] / narrow["seconds"],
        "saved": 1 - narrow["peak_bytes"] / wide["peak_bytes"],
    }
