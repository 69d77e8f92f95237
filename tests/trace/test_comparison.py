"""Differences between two recorded calls."""

from __future__ import annotations

from collections import Counter

import pytest

from gpututor.trace.arrays import TraceArrays
from gpututor.trace.comparison import AS_LONG, NO_DIFFERENCE, SAME, Amounts, differences, in_one_sentence, ratio_words
from gpututor.trace.comparison import amounts_of as amounts_of_processes
from gpututor.trace.formatting import same_time
from tests.support.traces import MS, US, Program


def slow() -> Program:
    p = Program()
    for _ in range(4):
        p.copy(3, 2 * MS, 1 << 20)
        p.kernel(4, 100 * US)
        p.read(5, 10 * US, launch=5 * US)
    p.hazard(4, "read after write", 1)
    return p


def fast() -> Program:
    p = Program()
    p.copy(3, 5 * MS, 4 << 20)
    p.kernel(4, 300 * US)
    p.read(6, 10 * US, launch=5 * US)
    return p


def amounts_of(program: Program, elapsed: int, peak_bytes: int, processes: int = 1) -> Amounts:
    return amounts_of_processes([TraceArrays(program.trace)] * processes, elapsed, peak_bytes)


def test_amounts_of_a_trace() -> None:
    amounts = amounts_of(slow(), 9 * MS, 5 << 20)
    assert (amounts["kernels"], amounts["kernel_time"]) == (4, 400 * US)
    assert (amounts["to_device"], amounts["to_device_bytes"]) == (4, 4 << 20)
    assert (amounts["to_host"], amounts["to_host_bytes"]) == (4, 16)
    assert (amounts["waits"], amounts["hazards"], amounts["between"]) == (4, 1, 0)
    assert (amounts["elapsed"], amounts["peak_bytes"]) == (9 * MS, 5 << 20)
    double = amounts_of(slow(), MS, 0, processes=2)
    assert (double["kernels"], double["busy"]) == (2 * amounts["kernels"], 2 * amounts["busy"])
    assert differences(nothing := amounts_of_processes([], 0, 0), nothing) == ()


def test_differences_describe_the_left_call() -> None:
    left, right = amounts_of(fast(), 5 * MS, 1 << 20), amounts_of(slow(), 10 * MS, 3 << 20)
    words = {difference.name: difference.words for difference in differences(left, right)}
    assert words["time"].endswith("5.00 ms less")
    assert words["kernels"] == "3 kernels fewer"
    assert words["copies to device"] == "3 copies fewer"
    assert words["peak of memory"] == "2.00 MiB less"
    assert words["hazards"] == "1 hazard fewer"
    better = {difference.name: difference.better for difference in differences(left, right)}
    assert [better[name] for name in ("time", "kernels", "hazards")] == [1, 1, 1]
    back = {difference.name: difference for difference in differences(right, left)}
    assert back["time"].words.endswith("5.00 ms more")
    assert back["kernels"].better == -1
    sentence = in_one_sentence(differences(left, right))
    assert all(words in sentence for words in ("3 copies to device fewer", "3 copies to host fewer"))


def test_calls_that_are_equal_or_read_the_same_have_no_difference() -> None:
    same = amounts_of(slow(), MS, 1)
    compared = differences(same, same)
    words = {difference.name: difference.words for difference in compared}
    assert set(words.values()) - {words["device busy"]} == {SAME, AS_LONG}
    assert words["device busy"].endswith("in both")
    assert in_one_sentence(compared) == NO_DIFFERENCE
    left = amounts_of(slow(), 2 * MS, (1 << 30) + 8)
    right = left + Counter(elapsed=2, busy=2, wait_time=2, peak_bytes=-8)
    by_name = {difference.name: difference for difference in differences(right, left)}
    assert (by_name["time"].words, by_name["time"].better) == (AS_LONG, 0)
    assert by_name["peak of memory"].words == SAME
    assert " not " not in by_name["device busy"].words
    assert in_one_sentence(by_name.values()) == NO_DIFFERENCE
    later = {difference.name: difference.words for difference in differences(left + Counter(elapsed=9 * US), left)}
    assert later["time"] == "9.00 µs more", "a ratio of 1 is not told"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [(0, 0, True), (100_000, 100_900, True), (99, 100, False), (2 * MS, 2 * MS + 2, True), (MS, 2 * MS, False)],
)
def test_times_that_look_the_same(left: int, right: int, same: bool) -> None:
    assert same_time(left, right) is same
    assert (ratio_words(left, right) == AS_LONG) is same
    assert (ratio_words(2, 5), ratio_words(5, 2)) == ("2.5 × as fast", "2.5 × as long")
