# fails: limit
# Asks for half of a peak: an addition that reaches a third of the bandwidth is said to be limited by the launch.
import time
from collections.abc import Callable

import torch

CALLS = 10
ENOUGH = 0.5


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds of a call, from ten in a row after one to warm up."""
    work()
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
    """Time a call of `work`, and find what limits it.

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
