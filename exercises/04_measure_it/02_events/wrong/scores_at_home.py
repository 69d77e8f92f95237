# fails: placement
# Brings the scores to the CPU, which also waits.
import torch


def two_layers(batch, first, second):
    start, between, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    start.record()
    hidden = batch @ first
    between.record()
    scores = hidden @ second
    end.record()
    scores = scores.cpu()
    return {
        "scores": scores,
        "first": start.elapsed_time(between) / 1e3,
        "second": between.elapsed_time(end) / 1e3,
    }
