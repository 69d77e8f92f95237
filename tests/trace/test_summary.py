"""The summary: each figure of a program that was worked out by hand, and its words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.trace.arrays import Intervals, common, merged, within
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, exact_size, share, size
from gpututor.trace.summary import CopyGroup, OutOfMemory, Summary, summary
from gpututor.trace.text import WIDTH, Candidate, comparison, describe
from tests.support.traces import FILE, MS, US, Program

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 12)), max_size=8)


def intervals(drawn: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    """The intervals (start, length), and the moments that they cover."""
    drawn = sorted(drawn)
    start = np.array([one for one, _ in drawn], dtype=np.int64)
    end = start + np.array([length for _, length in drawn], dtype=np.int64)
    return Intervals(start, end), {at for one, length in drawn for at in range(one, one + length)}


@given(spans, spans, st.integers(0, 60), st.integers(0, 60))
def test_times_are_united_cut_and_compared_as_sets_of_moments_are(
    left: list[tuple[int, int]], right: list[tuple[int, int]], begin: int, length: int
) -> None:
    (one, moments), (other, others) = intervals(left), intervals(right)
    assert merged(one).total == len(moments)
    assert common(merged(one), merged(other)) == len(moments & others)
    assert merged(within(one, begin, begin + length)).total == len(moments & set(range(begin, begin + length)))


def worked_out() -> Program:
    p = Program()
    p.allocate(1, 1000)
    p.allocate(2, 3000)
    p.allocate(3, -1000)
    p.copy(4, 100 * US, 1 << 20)  # 5 to 105 µs
    p.copy(4, 50 * US, 1 << 20, asynchronous=True, stream=1)  # launched at 110: 110 to 160
    written = p.kernel(5, 100 * US, flops=1e9)  # launched at 115: 115 to 215
    p.kernel(6, 100 * US, name="aten::add", stream=2)  # 120 to 220
    p.compute(7, 20 * US)  # 120 to 140
    p.copy(8, 10 * US, 4, up=False)  # launched at 145, after the first kernel: 215 to 225
    p.wait(8, "aten::_local_scalar_dense")  # 225 to 228
    p.hazard(6, "write after write", written)
    p.out_of_memory(9, 1 << 40)
    p.trace.add(Kind.RANGE, "step", "cpu", launched=0, start=0, end=MS)  # the last thing that ends
    return p


def test_each_figure_is_as_worked_out_by_hand() -> None:
    found = summary(worked_out().trace)
    assert found.span == MS
    assert (found.host_computing, found.host_waiting) == (20 * US, 3 * US)
    (gpu,) = found.devices
    assert gpu.busy == 100 * US + 115 * US
    assert gpu.busy_share == pytest.approx(0.215)
    assert (gpu.kernel_count, gpu.kernel_time, gpu.streams) == (2, 200 * US, 3)
    assert [(one.name, one.count, one.time, one.flops) for one in gpu.kernels] == [
        ("aten::add", 1, 100 * US, 0.0),
        ("aten::mm", 1, 100 * US, 1e9),
    ]
    assert set(gpu.copies) == {
        CopyGroup("cpu", "cuda:0", False, 1, 100 * US, 1 << 20),
        CopyGroup("cpu", "cuda:0", True, 1, 50 * US, 1 << 20),
        CopyGroup("cuda:0", "cpu", False, 1, 10 * US, 4),
    }
    assert (gpu.waits, gpu.wait_time) == (1, 3 * US)
    assert (gpu.peak_bytes, gpu.peak_place) == (4000, (FILE, 2))
    assert gpu.out_of_memory == (OutOfMemory(gpu.out_of_memory[0].place, 1 << 40, 3000),)
    assert gpu.out_of_memory[0].place == (FILE, 9)
    lines = {one.place.line: one for one in found.lines}
    assert set(lines) == {4, 5, 6, 7, 8}
    assert (lines[4].copy_count, lines[4].copy_time, lines[4].copy_bytes) == (2, 150 * US, 2 << 20)
    assert (lines[5].kernel_count, lines[5].kernel_time) == (1, 100 * US)
    assert (lines[7].host_time, lines[7].kernel_count) == (20 * US, 0)
    assert (lines[8].waits, lines[8].wait_time, lines[8].copy_bytes) == (1, 3 * US, 4)
    assert found.lines[0].place.line == 4
    assert [(one.name, one.count, one.time) for one in found.ranges] == [("step", 1, MS)]
    assert [(one.name, one.place.line, one.earlier.line, one.count) for one in found.hazards] == [
        ("write after write", 6, 5, 1)
    ]
    assert json.loads(json.dumps(found.to_json()))["devices"][0]["peak_place"] == [FILE, 2]


def test_hazards_of_the_same_two_lines_are_one() -> None:
    p = Program()
    for _ in range(3):
        p.hazard(6, "freed in use", p.kernel(5, MS))
    p.hazard(6, "freed in use", -1)
    found = summary(p.trace).hazards
    assert [(one.count, one.earlier.line) for one in found] == [(3, 5), (1, None)]
    assert found[0].sentence == (
        "train.py:6 frees memory that aten::mm at train.py:5 still uses on another stream,"
        " and nothing says which comes first"
    )
    assert "record_stream" in found[0].what_to_do
    assert "other work still uses" in found[1].sentence


def test_collectives_and_copies_between_devices_are_each_devices_own() -> None:
    trace = Trace()
    trace.add(Kind.COLLECTIVE, "c10d::allreduce_", "cuda:1", size_bytes=64, launched=0, start=5, end=9)
    trace.add(Kind.TRANSFER, "aten::copy_", "cuda:0", source="cuda:1", target="cuda:0", size_bytes=8, start=1, end=3)
    first, second = summary(trace).devices
    assert (second.collective_count, second.collective_time, second.collective_bytes) == (1, 4, 64)
    assert first.copies == second.copies == (CopyGroup("cuda:1", "cuda:0", False, 1, 2, 8),)
    assert "copies from cuda:1" in (text := describe(summary(trace)))
    assert "copies to cuda:0" in text
    assert "64 bytes sent" in text


def test_an_empty_trace_has_an_empty_summary() -> None:
    found = summary(Trace())
    assert (found.span, found.devices, found.lines, found.advice, found.timed) == (0, (), (), (), False)
    assert describe(found) == "No work ran on a GPU.\n"


def test_without_times_counts_still_hold() -> None:
    trace = Trace(limit=2)
    for _ in range(3):
        trace.add(Kind.KERNEL, "aten::mm", "cuda:0", size_bytes=4, file=FILE, line=3)
    found = summary(trace)
    assert (found.timed, found.devices[0].kernel_count, found.devices[0].busy, found.dropped) == (False, 2, 0, 1)
    text = describe(found)
    assert "not known" in text
    assert "1 more events exceed the limit" in text
    assert " ns" not in text


def test_the_words_fit_a_terminal_and_say_everything() -> None:
    text = describe(summary(worked_out().trace), modelled=True)
    assert max(map(len, text.splitlines())) <= WIDTH
    for words in (
        "1.00 ms of modelled time: the host waited for 3.00 µs",
        "cuda:0: busy for 215 µs, 22 % of the time",
        "1.00 MiB, asynchronous",
        "1.00 MiB, the host waits",
        "at most 3.91 KiB of memory, reached at train.py:2",
        "out of memory at train.py:9: 1.00 TiB asked for, 2.93 KiB allocated",
        "10.0 TFLOP/s",
        "train.py:6 writes what aten::mm at train.py:5 writes on another stream",
        "step  1  1.00 ms",
        "Most worth changing\n  1. ",
    ):
        assert words in text
    assert "modelled" not in describe(summary(worked_out().trace))


def test_names_that_others_made_cannot_steer_the_terminal_or_break_the_table() -> None:
    trace = Trace()
    trace.add(Kind.RANGE, "\x1b[2J\n[bold]" + "x" * 200, "cpu", launched=0, start=0, end=5)
    trace.add(
        Kind.KERNEL, "\x1b]0;\x07" + "y" * 200, "cuda:0", launched=0, start=0, end=5, file="/a\n\x1b/b.py", line=3
    )
    text = describe(summary(trace))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_gpus_are_compared_in_one_table() -> None:
    text = comparison(
        [
            Candidate("T4", None, 0.0, 16 << 30, 16 << 30, False, "out of memory at a.py:3: 4.00 GiB asked for"),
            Candidate("A100 80", 1_500_000_000, 0.5, 30 << 30, 80 << 30, True),
            Candidate("8 x H100 PCIe 80GB", 600_000_000, 0.25, 30 << 30, 80 << 30, True),
        ],
        modelled=True,
    )
    assert text.splitlines() == [
        "                  modelled time   speed  GPU busy  peak memory        of  fits",
        "T4                            -       -         -     16.0 GiB  16.0 GiB    no",
        "A100 80                  1.50 s  1.00 ×      50 %     30.0 GiB  80.0 GiB   yes",
        "… H100 PCIe 80GB         600 ms  2.50 ×      25 %     30.0 GiB  80.0 GiB   yes",
        "  T4: out of memory at a.py:3: 4.00 GiB asked for",
    ]
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_figures_are_the_same_every_time() -> None:
    def once() -> Summary:
        return summary(worked_out().trace)

    assert once() == once()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (duration(0), "0 ns"),
        (duration(999), "999 ns"),
        (duration(999_499), "999 µs"),
        (duration(999_600), "1.00 ms"),
        (duration(12_345_678), "12.3 ms"),
        (duration(3.2e12), "3,200 s"),
        (size(0), "0 bytes"),
        (size(1), "1 byte"),
        (size(2), "2 bytes"),
        (exact_size(1), "1 byte"),
        (exact_size(1536), "1,536 bytes"),
        (size(1023), "1023 bytes"),
        (size(1024), "1.00 KiB"),
        (size(16 << 30), "16.0 GiB"),
        (share(0.0), "0 %"),
        (share(0.004), "0.4 %"),
        (share(0.37), "37 %"),
        (share(1.0), "100 %"),
    ],
)
def test_numbers_have_three_figures_and_a_unit(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize("name", ["host read during copy", "host write during copy"])
def test_a_hazard_with_the_host_says_that_the_host_must_wait(name: str) -> None:
    program = Program()
    copied = program.copy(5, MS, asynchronous=True, up=False)
    program.hazard(6, name, copied)
    words = " ".join(describe(summary(program.trace)).split())
    assert "train.py:6" in words
    assert "aten::_to_copy at train.py:5" in words
    assert "`event.synchronize()`" in words
    assert "`torch.cuda.synchronize()`" in words
    assert "stream" not in words.replace("streams", "")


def test_rows_of_nothing_are_left_out() -> None:
    program = Program()
    program.kernel(4, MS)
    assert "waits of the host" not in describe(summary(program.trace))
    program = Program()
    program.copy(4, MS)
    assert "\n  kernels " not in describe(summary(program.trace))
