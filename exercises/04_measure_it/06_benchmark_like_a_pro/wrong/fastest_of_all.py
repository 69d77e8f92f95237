# fails: fastest
# Names the way with the smallest total time, for every pair.
import torch
from torch.utils import benchmark


def compare_ways(ways, pairs, number):
    measured = {name: [] for name in ways}
    for x, y in pairs:
        for name, statement in ways.items():
            timer = benchmark.Timer(
                stmt=statement,
                globals={"x": x, "y": y, "torch": torch},
                label="row products",
                sub_label=f"{x.shape[0]} x {x.shape[1]}",
                description=name,
            )
            measured[name].append(timer.timeit(number))
    seconds = {name: [run.median for run in runs] for name, runs in measured.items()}
    return {
        "seconds": seconds,
        "fastest": [min(ways, key=lambda name, pair=pair: sum(seconds[name]) + 0 * pair) for pair in range(len(pairs))],
        "table": str(benchmark.Compare([run for runs in measured.values() for run in runs])),
    }
