"""Benchmark like a pro: timers, labels, and one table."""

import torch
from torch.utils import benchmark


def compare_ways(
    ways: dict[str, str],
    pairs: list[tuple[torch.Tensor, torch.Tensor]],
    number: int,
) -> dict:
    """Medians of `number` runs of each statement in x and y, and a table.

    Each statement runs for each pair x, y, both (rows, columns).
    """
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
    seconds = {
        name: [run.median for run in runs]
        for name, runs in measured.items()
    }
    every = [run for runs in measured.values() for run in runs]
    return {
        "seconds": seconds,
        "fastest": [
            min(ways, key=lambda name, pair=pair: seconds[name][pair])
            for pair in range(len(pairs))
        ],
        "table": str(benchmark.Compare(every)),
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ways = {
        "mul, sum": "(x * y).sum(1)",
        "bmm": "torch.bmm(x[:, None], y[:, :, None])",
    }
    pairs = [
        tuple(torch.randn(2, rows, 128, device=device))
        for rows in (64, 4096)
    ]
    result = compare_ways(ways, pairs, 20)
    print(result["table"])
    print("fastest:", result["fastest"])
