# fails: table
# Without sub_label all sizes end up in one row.
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
                description=name,
            )
            measured[name].append(timer.timeit(number))
    seconds = {name: [run.median for run in runs] for name, runs in measured.items()}
    return {
        "seconds": seconds,
        "fastest": [min(ways, key=lambda name, pair=pair: seconds[name][pair]) for pair in range(len(pairs))],
        "table": str(benchmark.Compare([run for runs in measured.values() for run in runs])),
    }
