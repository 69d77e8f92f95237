# Calls the compiled model once more for the output, between two timings, and waits for each timed call.
import time

import torch


def mean_of(function, batch, repeats):
    total = 0.0
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function(batch)
        torch.cuda.synchronize()
        total += time.perf_counter() - start
    return total / repeats


def compile_and_time(model, traced, batch, repeats):
    result = {}
    compiled = torch.compile(model)
    result["first_seconds"] = mean_of(compiled, batch, 1)
    result["seconds"] = mean_of(compiled, batch, repeats)
    result["output"] = compiled(batch)
    for name, function, warm_up in (("traced_seconds", traced, 2), ("eager_seconds", model, 1)):
        for _ in range(warm_up):
            function(batch)
        result[name] = mean_of(function, batch, repeats)
    return result
