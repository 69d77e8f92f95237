# fails: second
# Measures both figures from the start: the second includes both products.
import torch


def two_layers(batch, first, second):
    start, between, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    start.record()
    hidden = batch @ first
    between.record()
    scores = hidden @ second
    end.record()
    end.synchronize()
    return {
        "scores": scores,
        "first": start.elapsed_time(between) / 1e3,
        "second": start.elapsed_time(end) / 1e3,
    }
