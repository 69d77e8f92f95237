"""Two recorded calls, and what they differ in."""

from __future__ import annotations

from collections import Counter

import pytest

from gpututor.trace.arrays import TraceArrays
from gpututor.trace.comparison import (
    AS_LONG,
    NO_DIFFERENCE,
    SAME,
    amounts_of,
    differences,
    in_one_sentence,
    ratio_words,
)
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


def test_the_amounts_are_those_of_the_trace() -> None:
    found = amounts_of([TraceArrays(slow().trace)], 9 * MS, 5 << 20)
    assert (found["kernels"], found["kernel_time"]) == (4, 400 * US)
    assert (found["to_device"], found["to_device_bytes"]) == (4, 4 << 20)
    assert (found["to_host"], found["to_host_bytes"]) == (4, 16)
    assert (found["waits"], found["hazards"], found["between"]) == (4, 1, 0)
    assert (found["elapsed"], found["peak_bytes"]) == (9 * MS, 5 << 20)


def test_several_processes_count_together() -> None:
    one, two = (amounts_of([TraceArrays(slow().trace)] * number, MS, 0) for number in (1, 2))
    assert (two["kernels"], two["busy"]) == (2 * one["kernels"], 2 * one["busy"])


def test_without_a_trace_there_is_nothing() -> None:
    nothing = amounts_of([], 0, 0)
    assert differences(nothing, nothing) == ()


def test_differences_are_told_in_words_from_the_left_one() -> None:
    left, right = (
        amounts_of([TraceArrays(fast().trace)], 5 * MS, 1 << 20),
        amounts_of([TraceArrays(slow().trace)], 10 * MS, 3 << 20),
    )
    words = {one.name: one.words for one in differences(left, right)}
    assert words["time"] == "2 × as fast, 5.00 ms less"
    assert words["kernels"] == "3 kernels fewer"
    assert words["copies to device"] == "3 copies fewer"
    assert words["peak of memory"] == "2.00 MiB less"
    assert words["hazards"] == "1 hazard fewer"
    assert all(one.better == 1 for one in differences(left, right) if one.name in ("time", "kernels", "hazards"))
    back = {one.name: one for one in differences(right, left)}
    assert back["time"].words == "2 × as long, 5.00 ms more"
    assert back["kernels"].better == -1


def test_what_is_the_same_is_said_to_be() -> None:
    same = amounts_of([TraceArrays(slow().trace)], MS, 1)
    found = differences(same, same)
    words = {one.name: one.words for one in found}
    assert set(words.values()) - {words["device busy"]} == {SAME, AS_LONG}
    assert words["device busy"].endswith(" % of the time in both")
    assert in_one_sentence(found) == NO_DIFFERENCE


def test_what_reads_the_same_or_is_less_than_a_microsecond_apart_is_no_difference() -> None:
    one = amounts_of([TraceArrays(slow().trace)], 2 * MS, (1 << 30) + 8)
    other = one + Counter(elapsed=2, busy=2, wait_time=2, peak_bytes=-8)
    found = {each.name: each for each in differences(other, one)}
    assert (found["time"].words, found["time"].better) == (AS_LONG, 0)
    assert found["peak of memory"].words == SAME
    assert " not " not in found["device busy"].words
    assert in_one_sentence(found.values()) == NO_DIFFERENCE
    later = {each.name: each.words for each in differences(one + Counter(elapsed=9 * US), one)}
    assert later["time"] == "9.00 µs more", "a ratio of 1 is not told"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [(0, 0, True), (100_000, 100_900, True), (99, 100, False), (2 * MS, 2 * MS + 2, True), (MS, 2 * MS, False)],
)
def test_times_that_nobody_would_tell_apart(left: int, right: int, same: bool) -> None:
    assert same_time(left, right) is same
    assert (ratio_words(left, right) == AS_LONG) is same


def test_a_sentence_tells_the_kinds_of_copies_apart() -> None:
    left, right = (
        amounts_of([TraceArrays(fast().trace)], 5 * MS, 0),
        amounts_of([TraceArrays(slow().trace)], 10 * MS, 0),
    )
    sentence = in_one_sentence(differences(left, right))
    assert "3 copies to device fewer" in sentence
    assert "3 copies to host fewer" in sentence


def test_a_ratio_says_which_way_it_goes() -> None:
    assert ratio_words(2, 5) == "2.5 × as fast"
    assert ratio_words(5, 2) == "2.5 × as long"
