# fails: warm_up
# Times the first ten calls.
import time
from collections.abc import Callable

import torch

CALLS = 10
ENOUGH = 0.25


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds of a call, from ten in a row."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / CALLS


def what_limits(
    work: Callable[[], object],
    flops: int,
    moved: int,
    peak_flops: float,
    bandwidth: float,
) -> dict:
    """The time of a call of `work`, two shares, and what limits it.

    It computes `flops` and moves `moved` bytes. The GPU can do
    `peak_flops` FLOP/s and move `bandwidth` bytes/s.
    """
    seconds = seconds_of(work)
    shares = {
        "compute": flops / seconds / peak_flops,
        "memory": moved / seconds / bandwidth,
    }
    limit = max(shares, key=shares.get)
    return {
        "seconds": seconds,
        "flops_share": shares["compute"],
        "bandwidth_share": shares["memory"],
        "limit": limit if shares[limit] >= ENOUGH else "launch",
    }
