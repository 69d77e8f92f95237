"""One event in words: when, how much, what it waited for, and what is wrong with it."""

from __future__ import annotations

import pytest

from gpututor.trace.arrays import TraceArrays
from gpututor.trace.events import Kind
from gpututor.trace.text import EventDescription, cause_of, describe_event, short_name, span_words
from gpututor.trace.timeline import Lane, Span, TimelineLayout
from tests.support.traces import FILE, US, Program


def told(program: Program, lane: str, number: int = 0, times: str = "modelled") -> EventDescription:
    picture = TimelineLayout([("", TraceArrays(program.trace))])
    return describe_event(picture, _lane(picture, lane), number, times)


def _lane(picture: TimelineLayout, name: str) -> Lane:
    return next(lane for lane in picture.lanes if lane.name == name)


def test_a_kernel_says_when_it_ran_what_it_moved_and_computed_and_that_it_began_at_once() -> None:
    program = Program()
    program.kernel(7, 100 * US, name="aten::mm", flops=2e8)
    words = told(program, "default stream")
    assert words.title == "aten::mm on the default stream of cuda:0"
    assert words.facts == (
        "5.0 to 105.0 µs: 100 µs (modelled), 95 % of the whole",
        "1.00 MiB in and out (10.5 GB/s), 200 MFLOP (2.00 TFLOP/s)",
        "Launched at 5.00 µs, began at once",
    )
    assert (words.place.file, words.place.line) == (FILE, 7)
    assert not words.hazards


def test_measured_times_say_that_they_are_measured() -> None:
    program = Program()
    program.kernel(7, 100 * US)
    assert "100 µs (measured)" in told(program, "default stream", times="measured").facts[0]


def test_work_that_waits_says_what_for_also_on_another_stream() -> None:
    program = Program()
    program.kernel(1, 100 * US, name="aten::first")
    program.kernel(2, 10 * US, name="aten::second")
    assert told(program, "default stream", 1).facts[-1] == (
        "Launched at 10.0 µs, waited 95.0 µs for aten::first before it (train.py:1)"
    )
    program.free_at[3] = program.free_at[0]  # the stream waits for an event of the other
    program.kernel(3, 10 * US, name="aten::third", stream=3)
    assert told(program, "stream 3").facts[-1] == (
        "Launched at 15.0 µs, waited 100 µs for aten::second on the default stream of cuda:0 (train.py:2)"
    )


def test_a_wait_of_the_host_says_what_it_waited_for_and_what_that_waited_for() -> None:
    program = Program()
    program.kernel(1, 100 * US)
    program.wait(2)
    host = 1
    assert told(program, "host", host).title == "The host waits in torch.cuda.synchronize"
    assert told(program, "host", host).facts[-1] == ("Waited for aten::mm on the default stream of cuda:0 (train.py:1)")
    program.kernel(3, 100 * US, name="aten::sum")
    program.read(4, 8 * US, launch=2 * US)
    picture = TimelineLayout([("", TraceArrays(program.trace))])
    lane = _lane(picture, "host")
    last = max(number for number in range(len(lane)) if lane.span[number] == Span.WAIT)
    words = describe_event(picture, lane, last)
    assert words.title == "The host waits to read a value of the device: `.item()`, `float()`, `if`"
    assert words.facts[-1] == (
        "Waited for the copy from cuda:0 to the host (train.py:4),"
        " which waited for aten::sum on the default stream of cuda:0 (train.py:3)"
    )


def test_a_wait_for_nothing_says_so() -> None:
    program = Program()
    program.kernel(1, US)
    program.now += 50 * US
    program.wait(2)
    assert told(program, "host", 1).facts[-1] == "There was nothing left to wait for"


def test_a_copy_says_how_much_how_fast_and_whether_the_host_is_held() -> None:
    program = Program()
    first = program.copy(1, 100 * US, 1 << 20)
    program.copy(2, 100 * US, 1 << 20, asynchronous=True, stream=4, partner=first)
    blocking, free = (told(program, "to the device", number) for number in (0, 1))
    assert blocking.title == "Copy of 1.00 MiB from the host to cuda:0"
    assert "10.5 GB/s, on the default stream of cuda:0, the host is held: not pinned, or" in blocking.facts[1]
    assert free.facts[1] == "10.5 GB/s, on stream 4 of cuda:0, asynchronous: the host goes on meanwhile"
    assert free.facts[2] == "The same bytes were copied before, at train.py:1"


def test_a_launch_says_when_its_work_begins() -> None:
    program = Program()
    program.kernel(1, 100 * US)
    program.kernel(2, 20 * US, name="aten::relu")
    words = told(program, "host", 1)
    assert words.title == "Launch of aten::relu"
    assert words.facts == ("Done at 10.0 µs; it begins 95.0 µs later, and takes 20.0 µs",)
    assert words.place.line == 2


def test_a_launch_of_work_that_was_never_timed_says_so() -> None:
    program = Program()
    program.trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=10 * US)
    assert told(program, "host").facts == ("Done at 5.00 µs; when it ran is not known",)


def test_a_hazard_is_told_in_a_sentence_with_what_to_do_and_the_other_line() -> None:
    program = Program()
    earlier = program.kernel(3, 50 * US, name="aten::tanh", stream=1)
    program.kernel(9, 10 * US, name="aten::mul")
    program.hazard(9, "read after write", earlier, stream=0)
    words = told(program, "default stream")
    sentence, what_to_do = words.hazards
    assert sentence == (
        "train.py:9 reads what aten::tanh at train.py:3 writes on another stream, and nothing says which comes first"
    )
    assert "wait_stream" in what_to_do
    assert words.earlier.line == 3


def test_missing_memory_says_how_much_was_asked_for_and_taken() -> None:
    program = Program()
    program.kernel(1, US)
    program.allocate(2, 3 << 20)
    program.out_of_memory(3, 1 << 30)
    words = told(program, "host", 1)
    assert words.title == "Out of memory: 1.00 GiB asked for on cuda:0"
    assert "when 3.00 MiB were allocated" in words.facts[0]


def test_what_has_no_cause_has_none() -> None:
    program = Program()
    program.compute(1, 10 * US)
    picture = TimelineLayout([("", TraceArrays(program.trace))])
    assert cause_of(picture, picture.lanes[0], 0) is None


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (0, 999, "0 to 999 ns"),
        (5_000, 7_030, "5.0 to 7.0 µs"),
        (62_101_000, 62_115_600, "62.1010 to 62.1156 ms"),
        (0, 2_000_000_000, "0.0 to 2.0 s"),
    ],
)
def test_moments_have_as_many_digits_as_it_takes(start: int, end: int, words: str) -> None:
    assert span_words(start, end) == words


@pytest.mark.parametrize(
    ("name", "short"),
    [("aten::mm", "mm"), ("c10d::allreduce_", "allreduce"), ("aten::_local_scalar_dense", ".item()"), ("_", "_")],
)
def test_names_on_bars_are_short(name: str, short: str) -> None:
    assert short_name(name) == short
