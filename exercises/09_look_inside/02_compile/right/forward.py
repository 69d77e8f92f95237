# It calls the forward methods of all three models.
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
    compiled = torch.compile(model.forward)
    first, output = seconds(compiled, batch, 1)
    later, _ = seconds(compiled, batch, repeats)
    for _ in range(3):
        model.forward(batch)
    eager, _ = seconds(model.forward, batch, repeats)
    seconds(traced.forward, batch, 2)
    traced_s, _ = seconds(traced.forward, batch, repeats)
    return {
        "output": output,
        "first_seconds": first,
        "seconds": later,
        "eager_seconds": eager,
        "traced_seconds": traced_s,
    }
