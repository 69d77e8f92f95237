# fails: parity
# Applies a softmax to the scores, although the task does not ask for it.
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
        "scores": scores.softmax(dim=1),
        "first": start.elapsed_time(between) / 1e3,
        "second": between.elapsed_time(end) / 1e3,
    }
