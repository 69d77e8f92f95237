# It compiles a function that calls the model, by torch.compile as a decorator.
import time

import torch


def seconds(function, batch, repeats):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        output = function(batch)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats, output


def compile_and_time(model, traced, batch, repeats):
    compiled = torch.compile(mode="reduce-overhead")(lambda batch: model(batch))
    first, _ = seconds(compiled, batch, 1)
    # Each run of a CUDA graph overwrites the output of the run before.
    later, output = seconds(compiled, batch, repeats)
    model(batch)
    eager, _ = seconds(model, batch, repeats)
    seconds(traced, batch, 2)
    traced_s, _ = seconds(traced, batch, repeats)
    return {
        "output": output,
        "first_seconds": first,
        "seconds": later,
        "eager_seconds": eager,
        "traced_seconds": traced_s,
    }
