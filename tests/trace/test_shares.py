"""What a device's time was spent on."""

from __future__ import annotations

from gpututor.trace.arrays import TimeShares, TraceArrays, time_shares
from tests.support.traces import MS, US, Program


def test_every_moment_counts_once_and_computing_comes_first() -> None:
    p = Program()
    p.copy(1, 100 * US, asynchronous=True, stream=1)
    p.kernel(2, 50 * US)  # beside the copy
    p.wait(3)
    p.compute(4, 30 * US)
    (found,) = time_shares(TraceArrays(p.trace))
    assert (found.computing, found.copying) == (50 * US, 50 * US)
    assert found.whole == TraceArrays(p.trace).span
    assert found.idle >= 30 * US


def test_a_wait_counts_only_where_nothing_runs() -> None:
    p = Program()
    p.kernel(1, 100 * US)
    p.wait(2)
    p.wait(3)
    (found,) = time_shares(TraceArrays(p.trace))
    # The second wait finds nothing to wait for; of the first one all but its end is beside the kernel.
    assert found.waiting == 3 * US
    assert found.computing == 100 * US


def test_time_that_the_trace_does_not_reach_is_idle() -> None:
    p = Program()
    p.kernel(1, MS, launch=0)
    assert time_shares(TraceArrays(p.trace), 4 * MS) == (TimeShares("cuda:0", MS, 0, 0, 3 * MS),)
