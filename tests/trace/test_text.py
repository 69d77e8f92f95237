"""Texts about traces: summaries, comparisons of GPUs and single events."""

from __future__ import annotations

import pytest

from gpututor.trace.arrays import TraceArrays
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.summary import summary
from gpututor.trace.text import (
    WIDTH,
    Candidate,
    EventDescription,
    cause_of,
    comparison,
    describe,
    describe_event,
    short_name,
    span_words,
)
from gpututor.trace.timeline import Lane, Span, TimelineLayout
from tests.support.traces import FILE, MS, US, Program, mixed_program


def test_the_summary_fits_a_terminal() -> None:
    text = describe(summary(mixed_program().trace), modelled=True)
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
    assert "modelled" not in describe(summary(mixed_program().trace))


def test_control_characters_of_names_are_escaped() -> None:
    trace = Trace()
    trace.add(Kind.RANGE, "\x1b[2J\n[bold]" + "x" * 200, "cpu", launched=0, start=0, end=5)
    trace.add(
        Kind.KERNEL, "\x1b]0;\x07" + "y" * 200, "cuda:0", launched=0, start=0, end=5, file="/a\n\x1b/b.py", line=3
    )
    text = describe(summary(trace))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_gpus_are_compared_in_a_table() -> None:
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


@pytest.mark.parametrize("name", ["host read during copy", "host write during copy"])
def test_the_remedy_for_a_hazard_with_the_host_is_a_wait(name: str) -> None:
    program = Program()
    copied = program.copy(5, MS, asynchronous=True, up=False)
    program.hazard(6, name, copied)
    words = " ".join(describe(summary(program.trace)).split())
    assert "train.py:6" in words
    assert "aten::_to_copy at train.py:5" in words
    assert "`event.synchronize()`" in words
    assert "`torch.cuda.synchronize()`" in words
    assert "stream" not in words.replace("streams", "")


def test_empty_rows_are_left_out() -> None:
    program = Program()
    program.kernel(4, MS)
    assert "waits of the host" not in describe(summary(program.trace))
    program = Program()
    program.copy(4, MS)
    assert "\n  kernels " not in describe(summary(program.trace))


def described(program: Program, lane: str, number: int = 0, times: str = "modelled") -> EventDescription:
    layout = TimelineLayout([("", TraceArrays(program.trace))])
    return describe_event(layout, _lane(layout, lane), number, times)


def _lane(layout: TimelineLayout, name: str) -> Lane:
    return next(lane for lane in layout.lanes if lane.name == name)


def test_a_kernels_time_amounts_and_launch() -> None:
    program = Program()
    program.kernel(7, 100 * US, name="aten::mm", flops=2e8)
    words = described(program, "default stream")
    assert words.title == "aten::mm on the default stream of cuda:0"
    assert words.facts == (
        "5.0 to 105.0 µs: 100 µs (modelled), 95 % of the whole",
        "1.00 MiB in and out (10.5 GB/s), 200 MFLOP (2.00 TFLOP/s)",
        "Launched at 5.00 µs, began at once",
    )
    assert (words.place.file, words.place.line) == (FILE, 7)
    assert not words.hazards


def test_measured_times_are_labelled() -> None:
    program = Program()
    program.kernel(7, 100 * US)
    assert "100 µs (measured)" in described(program, "default stream", times="measured").facts[0]


def test_work_names_the_work_that_it_waited_for() -> None:
    program = Program()
    program.kernel(1, 100 * US, name="aten::first")
    program.kernel(2, 10 * US, name="aten::second")
    assert described(program, "default stream", 1).facts[-1] == (
        "Launched at 10.0 µs, waited 95.0 µs for aten::first before it (train.py:1)"
    )
    program.free_at[3] = program.free_at[0]  # the stream waits for an event of the other
    program.kernel(3, 10 * US, name="aten::third", stream=3)
    assert described(program, "stream 3").facts[-1] == (
        "Launched at 15.0 µs, waited 100 µs for aten::second on the default stream of cuda:0 (train.py:2)"
    )


def test_a_wait_of_the_host_names_its_cause_and_the_causes_cause() -> None:
    program = Program()
    program.kernel(1, 100 * US)
    program.wait(2)
    host = 1
    assert described(program, "host", host).title == "The host waits in torch.cuda.synchronize"
    assert described(program, "host", host).facts[-1] == (
        "Waited for aten::mm on the default stream of cuda:0 (train.py:1)"
    )
    program.kernel(3, 100 * US, name="aten::sum")
    program.read(4, 8 * US, launch=2 * US)
    layout = TimelineLayout([("", TraceArrays(program.trace))])
    lane = _lane(layout, "host")
    last = max(number for number in range(len(lane)) if lane.span[number] == Span.WAIT)
    words = describe_event(layout, lane, last)
    assert words.title == "The host waits to read a value of the device: `.item()`, `float()`, `if`"
    assert words.facts[-1] == (
        "Waited for the copy from cuda:0 to the host (train.py:4),"
        " which waited for aten::sum on the default stream of cuda:0 (train.py:3)"
    )


def test_a_wait_without_a_cause() -> None:
    program = Program()
    program.kernel(1, US)
    program.now += 50 * US
    program.wait(2)
    assert described(program, "host", 1).facts[-1] == "Nothing was left to wait for"


def test_a_copys_size_rate_and_effect_on_the_host() -> None:
    program = Program()
    first = program.copy(1, 100 * US, 1 << 20)
    program.copy(2, 100 * US, 1 << 20, asynchronous=True, stream=4, partner=first)
    blocking, free = (described(program, "to the device", number) for number in (0, 1))
    assert blocking.title == "Copy of 1.00 MiB from the host to cuda:0"
    assert "10.5 GB/s, on the default stream of cuda:0, the host waits: not pinned, or" in blocking.facts[1]
    assert free.facts[1] == "10.5 GB/s, on stream 4 of cuda:0, asynchronous: the host continues"
    assert free.facts[2] == "The same bytes were copied before, at train.py:1"


def test_a_launch_names_the_start_of_its_work() -> None:
    program = Program()
    program.kernel(1, 100 * US)
    program.kernel(2, 20 * US, name="aten::relu")
    words = described(program, "host", 1)
    assert words.title == "Launch of aten::relu"
    assert words.facts == ("Done at 10.0 µs; it begins 95.0 µs later, and takes 20.0 µs",)
    assert words.place.line == 2


def test_a_launch_of_untimed_work() -> None:
    program = Program()
    program.trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=10 * US)
    assert described(program, "host").facts == ("Done at 5.00 µs; when it ran is not known",)


def test_a_hazards_sentence_remedy_and_other_line() -> None:
    program = Program()
    earlier = program.kernel(3, 50 * US, name="aten::tanh", stream=1)
    program.kernel(9, 10 * US, name="aten::mul")
    program.hazard(9, "read after write", earlier, stream=0)
    words = described(program, "default stream")
    sentence, what_to_do = words.hazards
    assert sentence == (
        "train.py:9 reads what aten::tanh at train.py:3 writes on another stream, and nothing says which comes first"
    )
    assert "wait_stream" in what_to_do
    assert words.earlier.line == 3


def test_a_failed_allocations_size_and_allocated_memory() -> None:
    program = Program()
    program.kernel(1, US)
    program.allocate(2, 3 << 20)
    program.out_of_memory(3, 1 << 30)
    words = described(program, "host", 1)
    assert words.title == "Out of memory: 1.00 GiB asked for on cuda:0"
    assert "when 3.00 MiB were allocated" in words.facts[0]


def test_work_without_a_cause() -> None:
    program = Program()
    program.compute(1, 10 * US)
    layout = TimelineLayout([("", TraceArrays(program.trace))])
    assert cause_of(layout, layout.lanes[0], 0) is None


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (0, 999, "0 to 999 ns"),
        (5_000, 7_030, "5.0 to 7.0 µs"),
        (62_101_000, 62_115_600, "62.1010 to 62.1156 ms"),
        (0, 2_000_000_000, "0.0 to 2.0 s"),
    ],
)
def test_moments_have_enough_digits_to_differ(start: int, end: int, words: str) -> None:
    assert span_words(start, end) == words


@pytest.mark.parametrize(
    ("name", "short"),
    [("aten::mm", "mm"), ("c10d::allreduce_", "allreduce"), ("aten::_local_scalar_dense", ".item()"), ("_", "_")],
)
def test_names_on_bars_are_short(name: str, short: str) -> None:
    assert short_name(name) == short
