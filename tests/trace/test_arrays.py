"""Trace columns as arrays: intervals and shares of time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpututor.trace.arrays import Intervals, TimeShares, TraceArrays, common, merged, time_shares, within
from tests.support.traces import MS, US, Program

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 12)), max_size=8)


def intervals(drawn: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    """Return intervals (start, length), and the moments that they cover."""
    drawn = sorted(drawn)
    start = np.array([begin for begin, _ in drawn], dtype=np.int64)
    end = start + np.array([length for _, length in drawn], dtype=np.int64)
    return Intervals(start, end), {at for begin, length in drawn for at in range(begin, begin + length)}


@given(spans, spans, st.integers(0, 60), st.integers(0, 60))
def test_intervals_behave_like_sets_of_moments(
    left: list[tuple[int, int]], right: list[tuple[int, int]], begin: int, length: int
) -> None:
    (first, covered), (second, also_covered) = intervals(left), intervals(right)
    assert merged(first).total == len(covered)
    assert common(merged(first), merged(second)) == len(covered & also_covered)
    assert merged(within(first, begin, begin + length)).total == len(covered & set(range(begin, begin + length)))


def test_each_moment_counts_once_computing_before_copying() -> None:
    p = Program()
    p.copy(1, 100 * US, asynchronous=True, stream=1)
    p.kernel(2, 50 * US)  # beside the copy
    p.wait(3)
    p.compute(4, 30 * US)
    (shares,) = time_shares(TraceArrays(p.trace))
    assert (shares.computing, shares.copying) == (50 * US, 50 * US)
    assert shares.whole == TraceArrays(p.trace).span
    assert shares.idle >= 30 * US


def test_a_wait_counts_only_while_the_device_is_idle_and_time_after_the_trace_is_idle() -> None:
    p, short = Program(), Program()
    p.kernel(1, 100 * US)
    p.wait(2)
    p.wait(3)
    (shares,) = time_shares(TraceArrays(p.trace))
    # The second wait finds nothing to wait for; all but the end of the first is during the kernel.
    assert (shares.waiting, shares.computing) == (3 * US, 100 * US)
    short.kernel(1, MS, launch=0)
    assert time_shares(TraceArrays(short.trace), 4 * MS) == (TimeShares("cuda:0", MS, 0, 0, 3 * MS),)
