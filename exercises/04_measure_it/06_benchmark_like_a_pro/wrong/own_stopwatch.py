# fails: seconds
# Times the statements with Python's timeit, which does not wait for the device.
import timeit

import torch
from torch.utils import benchmark


def compare_ways(ways, pairs, number):
    seconds = {name: [] for name in ways}
    measured = []
    for x, y in pairs:
        for name, statement in ways.items():
            names = {"x": x, "y": y, "torch": torch}
            seconds[name].append(timeit.timeit(statement, globals=names, number=number) / number)
            timer = benchmark.Timer(
                stmt=statement,
                globals=names,
                label="row products",
                sub_label=f"{x.shape[0]} x {x.shape[1]}",
                description=name,
            )
            measured.append(timer.timeit(number))
    fastest = [min(ways, key=lambda name, pair=pair: seconds[name][pair]) for pair in range(len(pairs))]
    return {"seconds": seconds, "fastest": fastest, "table": str(benchmark.Compare(measured))}
