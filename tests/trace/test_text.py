"""Texts about traces: numbers and bars, summaries, comparisons of GPUs and single events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.formatting import area, bar, duration, exact_size, parts, share, size
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
from gpututor.trace.timeline import SpanKind
from tests.support.traces import FILE, MS, US, Program, lane_of, layout_of, mixed_program


def test_the_summary_fits_a_terminal() -> None:
    text = describe(summary(mixed_program().trace), modelled=True)
    assert max(map(len, text.splitlines())) <= WIDTH
    places, amounts = ("train.py:2", "train.py:5", "train.py:6", "train.py:9"), ("3.91 KiB", "1.00 TiB", "2.93 KiB")
    times = ("1.00 ms of modelled", "3.00 µs", "busy for 215 µs", "22 %", "10.0 TFLOP/s", "step  1  1.00 ms")
    for words in (*places, *amounts, *times, "1.00 MiB, asynchronous", "1.00 MiB, the host waits"):
        assert words in text
    assert "modelled" not in describe(summary(mixed_program().trace))


def test_control_characters_of_names_are_escaped() -> None:
    trace = Trace()
    trace.add(Kind.RANGE, "\x1b[2J\n[bold]" + "x" * 200, "cpu", launched=0, start=0, end=5)
    trace.add(
        Kind.KERNEL, "\x1b]0;\x07" + "y" * 200, "cuda:0", launched=0, start=0, end=5, file="/a\n\x1b/b.py", line=3
    )
    text = describe(summary(trace))
    assert not {"\x1b", "\x07"} & set(text)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_each_line_that_costs_has_its_text_below(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"first()\n\n\tstep('\x1b[2J')  # {'x' * 200}\nlast()\n")
    trace = Trace()
    for line in (1, 3, 9):
        trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=0, start=0, end=10 - line, file=str(path), line=line)
    lines = describe(summary(trace)).splitlines()
    below = lines[lines.index("Lines that cost most") + 2 :]
    places = [line.split()[0] for line in below]
    assert places == ["train.py:1", "first()", "train.py:3", "step('\\x1b[2J')", "train.py:9"]
    assert (below[3][:12], len(below[3]), below[3][-2:]) == ("    step('\\x", WIDTH, "x…")


def test_gpus_are_compared_in_a_table() -> None:
    text = comparison(
        [
            Candidate("T4", None, 0.0, 16 << 30, 16 << 30, False, "at a.py:3"),
            Candidate("A100 80", 1_500_000_000, 0.5, 30 << 30, 80 << 30, True),
            Candidate("8 x H100 PCIe 80GB", 600_000_000, 0.25, 30 << 30, 80 << 30, True),
        ],
        modelled=True,
    )
    cells = [re.split(r"  +", line) for line in text.splitlines()]
    assert cells == [
        ["", "modelled time", "speed", "GPU busy", "peak memory", "of", "fits"],
        ["T4", "-", "-", "-", "16.0 GiB", "16.0 GiB", "no"],
        ["A100 80", "1.50 s", "1.00 ×", "50 %", "30.0 GiB", "80.0 GiB", "yes"],
        ["… H100 PCIe 80GB", "600 ms", "2.50 ×", "25 %", "30.0 GiB", "80.0 GiB", "yes"],
        ["", "T4: at a.py:3"],
    ]
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize("name", ["host read during copy", "host write during copy"])
def test_the_remedy_for_a_hazard_with_the_host_is_a_wait(name: str) -> None:
    program = Program()
    copied = program.copy(5, MS, asynchronous=True, up=False)
    program.hazard(6, name, copied)
    text = " ".join(describe(summary(program.trace)).split())
    for words in ("train.py:6", "aten::_to_copy at train.py:5", "`event.synchronize()`", "`torch.cuda.synchronize()`"):
        assert words in text
    assert "stream" not in text.replace("streams", "")


def test_empty_rows_are_left_out() -> None:
    computing, copying = Program(), Program()
    computing.kernel(4, MS)
    copying.copy(4, MS)
    assert "waits of the host" not in describe(summary(computing.trace))
    assert "\n  kernels " not in describe(summary(copying.trace))


def contains(text: str, *words: str) -> bool:
    """Return true if the text has all words, in this order."""
    return re.search(".*".join(map(re.escape, words)), text) is not None


def described(program: Program, lane: str, number: int = 0, times: str = "modelled") -> EventDescription:
    layout = layout_of(program)
    return describe_event(layout, lane_of(layout, lane), number, times)


def test_a_kernels_time_amounts_and_launch() -> None:
    program = Program()
    program.kernel(7, 100 * US, name="aten::mm", flops=2e8)
    words = described(program, "default stream")
    time, amounts, launch = words.facts
    assert contains(words.title, "aten::mm", "default stream", "cuda:0")
    assert contains(time, "5.0 to 105.0 µs", "100 µs (modelled)", "95 %")
    assert contains(amounts, "1.00 MiB", "10.5 GB/s", "200 MFLOP", "2.00 TFLOP/s")
    assert contains(launch, "5.00 µs", "at once")
    assert (words.place.file, words.place.line) == (FILE, 7)
    assert not words.hazards
    assert "100 µs (measured)" in described(program, "default stream", times="measured").facts[0]


def test_work_names_the_work_that_it_waited_for() -> None:
    program = Program()
    program.kernel(1, 100 * US, name="aten::first")
    program.kernel(2, 10 * US, name="aten::second")
    waited = described(program, "default stream", 1).facts[-1]
    assert contains(waited, "10.0 µs", "95.0 µs", "aten::first", "train.py:1")
    program.free_at[3] = program.free_at[0]  # the stream waits for an event of the other
    program.kernel(3, 10 * US, name="aten::third", stream=3)
    waited = described(program, "stream 3").facts[-1]
    assert contains(waited, "15.0 µs", "100 µs", "aten::second", "default stream", "train.py:2")


def test_a_wait_of_the_host_names_its_cause_and_the_causes_cause() -> None:
    program = Program()
    program.kernel(1, 100 * US)
    program.wait(2)
    words = described(program, "host", 1)
    assert "torch.cuda.synchronize" in words.title
    assert contains(words.facts[-1], "aten::mm", "default stream", "train.py:1")
    program.kernel(3, 100 * US, name="aten::sum")
    program.read(4, 8 * US, launch=2 * US)
    lane = lane_of(layout_of(program), "host")
    last = max(number for number in range(len(lane)) if lane.span[number] == SpanKind.WAIT)
    words = described(program, "host", last)
    assert contains(words.title, "`.item()`", "`float()`", "`if`")
    assert contains(words.facts[-1], "the copy", "train.py:4", "aten::sum", "train.py:3")


def test_waits_without_a_cause_and_launches_name_what_is_known() -> None:
    program = Program()
    program.kernel(1, US)
    program.now += 50 * US
    program.wait(2)
    assert described(program, "host", 1).facts[-1].startswith("Nothing")
    program = Program()
    program.compute(1, 10 * US)
    layout = layout_of(program)
    assert cause_of(layout, layout.lanes[0], 0) is None
    program = Program()
    program.kernel(1, 100 * US)
    program.kernel(2, 20 * US, name="aten::relu")
    words = described(program, "host", 1)
    assert words.title == "Launch of aten::relu"
    assert contains(*words.facts, "10.0 µs", "95.0 µs", "20.0 µs")
    assert words.place.line == 2
    untimed = Program()
    untimed.trace.add(Kind.KERNEL, "aten::mm", "cuda:0", launched=10 * US)
    assert described(untimed, "host").facts[0].endswith("not known")


def test_a_copys_size_rate_and_effect_on_the_host() -> None:
    program = Program()
    first = program.copy(1, 100 * US, 1 << 20)
    program.copy(2, 100 * US, 1 << 20, asynchronous=True, stream=4, partner=first)
    blocking, free = (described(program, "to the device", number) for number in (0, 1))
    assert contains(blocking.title, "1.00 MiB", "host", "cuda:0")
    assert contains(blocking.facts[1], "10.5 GB/s", "default stream", "the host waits", "not pinned")
    assert contains(free.facts[1], "10.5 GB/s", "stream 4", "asynchronous")
    assert contains(free.facts[2], "same bytes", "train.py:1")


def test_hazards_and_failed_allocations_have_their_facts() -> None:
    program = Program()
    earlier = program.kernel(3, 50 * US, name="aten::tanh", stream=1)
    program.kernel(9, 10 * US, name="aten::mul")
    program.hazard(9, "read after write", earlier, stream=0)
    words = described(program, "default stream")
    sentence, what_to_do = words.hazards
    assert contains(sentence, "train.py:9", "reads", "aten::tanh", "train.py:3", "writes")
    assert "wait_stream" in what_to_do
    assert words.earlier.line == 3
    program = Program()
    program.kernel(1, US)
    program.allocate(2, 3 << 20)
    program.out_of_memory(3, 1 << 30)
    words = described(program, "host", 1)
    assert contains(words.title, "1.00 GiB", "cuda:0")
    assert "3.00 MiB" in words.facts[0]


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


def test_areas_and_bars_are_filled_in_eighths() -> None:
    assert area([0, 1, 8, 12, 16], 16, 2) == ["   ▄█", " ▁███"]
    assert area([1], 10_000, 3) == [" ", " ", "▁"]
    assert (bar(1, 10_000, 20), bar(0, 10_000, 20)) == ("▏", "")
    assert (bar(10, 10, 5), bar(5, 10, 5)) == ("█████", "██▌")


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6), st.integers(0, 80))
def test_parts_fill_the_width_and_show_each_share(shares: list[float], width: int) -> None:
    taken = parts(shares, width)
    if any(shares):
        assert sum(taken) == width
        shown = sum(1 for share in shares if share > 0)
        assert width < shown or all(columns > 0 for share, columns in zip(shares, taken, strict=True) if share > 0)
    assert all(columns == 0 for share, columns in zip(shares, taken, strict=True) if share == 0)
