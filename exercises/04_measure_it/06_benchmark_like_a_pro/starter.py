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
    # TODO: a timer for each way and each pair; then their medians, the
    # fastest, and the table.
    x, y = pairs[0]
    for name, statement in ways.items():
        timer = benchmark.Timer(
            stmt=statement,
            globals={"x": x, "y": y, "torch": torch},
            description=name,
        )
        print(timer.timeit(number))
    return {
        "seconds": {name: [] for name in ways},
        "fastest": [],
        "table": "",
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
