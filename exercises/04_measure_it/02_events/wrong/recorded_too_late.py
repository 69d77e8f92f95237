# fails: first
# Records the first event after the first product, so that product is not timed.
import torch


def two_layers(batch, first, second):
    start, between, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    hidden = batch @ first
    start.record()
    between.record()
    scores = hidden @ second
    end.record()
    end.synchronize()
    return {
        "scores": scores,
        "first": start.elapsed_time(between) / 1e3,
        "second": between.elapsed_time(end) / 1e3,
    }
