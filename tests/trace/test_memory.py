"""Memory over time, and the tensors at its peak."""

from __future__ import annotations

import pytest

from gpututor.trace.arrays import NOWHERE, Place, TraceArrays
from gpututor.trace.memory import Change, LiveAllocation, memory_curves
from tests.support.traces import FILE, MIB, MS, US, Memory


def test_the_peak_and_the_lines_that_hold_memory_there() -> None:
    memory = Memory()
    first = memory.take(0, 3, 4 * MIB)
    memory.take(1 * US, 5, 8 * MIB)
    memory.take(2 * US, 5, 8 * MIB)
    memory.free(3 * US, 4 * MIB, first)
    memory.take(4 * US, 7, 1 * MIB)
    curve = memory.curve()
    assert (curve.peak_bytes, curve.peak_at, curve.peak_place) == (20 * MIB, 2 * US, Place(FILE, 5))
    assert curve.held(curve.peak.number) == (
        LiveAllocation(Place(FILE, 5), 16 * MIB, 2),
        LiveAllocation(Place(FILE, 3), 4 * MIB, 1),
    )
    assert curve.held(4) == (LiveAllocation(Place(FILE, 5), 16 * MIB, 2), LiveAllocation(Place(FILE, 7), 1 * MIB, 1))


def test_the_right_tensor_of_two_equal_sizes_is_freed() -> None:
    memory = Memory()
    first = memory.take(0, 3, MIB)
    memory.take(1, 4, MIB)
    memory.free(2, MIB, first)
    curve = memory.curve()
    assert [allocation.place.line for allocation in curve.held(2)] == [4]
    changes = [curve.last_change(number) for number in (-1, 0, 2)]
    assert changes == [None, Change(True, MIB, Place(FILE, 3)), Change(False, MIB, Place(FILE, 1))]


def test_memory_from_before_the_trace_is_counted_separately() -> None:
    memory, falling = Memory(before=10 * MIB), Memory(before=10 * MIB)
    memory.take(5, 3, 2 * MIB)
    memory.free(6, 4 * MIB)
    curve = memory.curve()
    assert curve.before == 10 * MIB
    assert (curve.older(0), curve.older(1)) == (10 * MIB, 6 * MIB)
    assert curve.reading(-1).allocated == 10 * MIB
    falling.free(5, 4 * MIB)
    curve = falling.curve()
    assert (curve.peak_bytes, curve.peak_place, curve.held(curve.peak.number)) == (10 * MIB, NOWHERE, ())


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 40, 200])
def test_each_part_of_the_time_shows_its_highest_reading(columns: int) -> None:
    memory = Memory(before=MIB)
    taken = [memory.take(at * MS, 3, (at + 1) * MIB) for at in range(1, 6)]
    for at, row in enumerate(taken, 1):
        memory.free((5 + at) * MS, (at + 1) * MIB, row)
    curve = memory.curve()
    highest = curve.highest(columns)
    assert len(highest) == columns
    assert highest[curve.column_of(curve.peak_at, columns)] == curve.peak
    assert max(reading.allocated for reading in highest) == curve.peak_bytes
    for column, (most, number, moment) in enumerate(highest):
        assert curve.reading(number).allocated == most
        assert curve.column_of(moment, columns) == column
        inside = [
            int(value)
            for at, value in zip(curve.moments, curve.allocated, strict=True)
            if curve.column_of(int(at), columns) == column
        ]
        assert most >= max(inside, default=0)


def test_a_failed_allocation_has_its_line_even_if_it_is_the_first() -> None:
    memory = Memory()
    memory.refuse(5, 4, 99 * MIB)
    curve = memory.curve()
    assert (curve.peak_bytes, len(curve.refused)) == (0, 1)
    assert [reading.allocated for reading in curve.highest(5)] == [0] * 5
    memory.take(10, 3, MIB)
    memory.refuse(20, 4, 99 * MIB)
    refused = memory.curve().refused[1]
    assert (refused.at, refused.place.line, refused.size_bytes, refused.allocated) == (20, 4, 99 * MIB, MIB)


def test_each_device_has_a_curve_also_without_times() -> None:
    memory = Memory()
    memory.take(-1, 3, MIB)
    memory.take(-1, 4, MIB)
    curve = memory.curve()
    assert not curve.timed
    assert (curve.peak_at, curve.last) == (1, (2 * MIB, 1, 1))
    memory = Memory()
    memory.take(0, 3, MIB)
    memory.device, memory.allocated = "cuda:1", 0
    memory.take(1, 3, 2 * MIB)
    assert [(curve.device, curve.peak_bytes) for curve in memory_curves(TraceArrays(memory.trace))] == [
        ("cuda:0", MIB),
        ("cuda:1", 2 * MIB),
    ]
