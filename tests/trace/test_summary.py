"""Summaries, compared with figures computed by hand."""

from __future__ import annotations

import json

import pytest

from gpututor.trace.advice_rules import Rates
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from gpututor.trace.summary import CopyGroup, OutOfMemory, summary
from gpututor.trace.text import describe
from tests.support.traces import FILE, MS, US, Program, mixed_program


def test_each_figure_is_as_computed_by_hand() -> None:
    whole = summary(mixed_program().trace)
    assert whole == summary(mixed_program().trace)
    assert whole.span == MS
    assert (whole.host_computing, whole.host_waiting) == (20 * US, 3 * US)
    (gpu,) = whole.devices
    assert gpu.busy == 100 * US + 115 * US
    assert gpu.busy_share == pytest.approx(0.215)
    assert (gpu.kernel_count, gpu.kernel_time, gpu.streams) == (2, 200 * US, 3)
    assert [(item.name, item.count, item.time, item.flops) for item in gpu.kernels] == [
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
    lines = {item.place.line: item for item in whole.lines}
    assert set(lines) == {4, 5, 6, 7, 8}
    assert (lines[4].copy_count, lines[4].copy_time, lines[4].copy_bytes) == (2, 150 * US, 2 << 20)
    assert (lines[5].kernel_count, lines[5].kernel_time) == (1, 100 * US)
    assert (lines[7].host_time, lines[7].kernel_count) == (20 * US, 0)
    assert (lines[8].waits, lines[8].wait_time, lines[8].copy_bytes) == (1, 3 * US, 4)
    assert whole.lines[0].place.line == 4
    assert [(item.name, item.count, item.time) for item in whole.ranges] == [("step", 1, MS)]
    assert [(item.name, item.place.line, item.earlier.line, item.count) for item in whole.hazards] == [
        ("write after write", 6, 5, 1)
    ]
    assert json.loads(json.dumps(whole.to_json()))["devices"][0]["peak_place"] == [FILE, 2]


def test_hazards_of_the_same_two_lines_are_grouped() -> None:
    p = Program()
    for _ in range(3):
        p.hazard(6, "freed in use", p.kernel(5, MS))
    p.hazard(6, "freed in use", -1)
    hazards = summary(p.trace).hazards
    assert [(hazard.count, hazard.earlier.line) for hazard in hazards] == [(3, 5), (1, None)]
    assert all(words in hazards[0].sentence for words in ("train.py:6 frees", "aten::mm", "train.py:5"))
    assert "record_stream" in hazards[0].what_to_do
    assert "other work still uses" in hazards[1].sentence


def test_collectives_and_copies_between_devices_count_for_their_devices() -> None:
    trace = Trace()
    trace.add(Kind.COLLECTIVE, "c10d::allreduce_", "cuda:1", size_bytes=64, launched=0, start=5, end=9)
    trace.add(Kind.TRANSFER, "aten::copy_", "cuda:0", source="cuda:1", target="cuda:0", size_bytes=8, start=1, end=3)
    first, second = summary(trace).devices
    assert (second.collective_count, second.collective_time, second.collective_bytes) == (1, 4, 64)
    assert first.copies == second.copies == (CopyGroup("cuda:1", "cuda:0", False, 1, 2, 8),)
    assert "copies from cuda:1" in (text := describe(summary(trace)))
    assert "copies to cuda:0" in text
    assert "64 bytes sent" in text


def test_empty_and_untimed_traces_have_counts_and_no_times() -> None:
    empty = summary(Trace())
    assert (empty.span, empty.devices, empty.lines, empty.advice, empty.timed) == (0, (), (), (), False)
    assert describe(empty).count("\n") == 1
    trace = Trace(limit=2)
    for _ in range(3):
        trace.add(Kind.KERNEL, "aten::mm", "cuda:0", size_bytes=4, file=FILE, line=3)
    untimed = summary(trace)
    assert (untimed.timed, untimed.dropped) == (False, 1)
    assert (untimed.devices[0].kernel_count, untimed.devices[0].busy) == (2, 0)
    text = describe(untimed)
    assert all(words in text for words in ("not known", "exceed the limit"))
    assert " ns" not in text


def test_kernels_with_known_accesses_have_their_traffic_and_share_of_the_peak() -> None:
    program = Program()
    program.kernel(3, MS, name="gather", moved=4 << 20)
    program.kernel(4, MS, name="gather", moved=8 << 20)
    program.kernel(5, MS, name="aten::mm")
    rates = {"cuda:0": Rates(float32=8e12, tensor=65e12, bytes_per_s=4e9)}
    (device,) = summary(program.trace, rates).devices
    kernels = {group.name: group for group in device.kernels}

    gather = kernels["gather"]
    assert (gather.requested_bytes, gather.moved_bytes, gather.programs) == (2 << 20, 12 << 20, 8)
    assert gather.peak_share == pytest.approx((1 << 20) / 4e6)
    assert (kernels["aten::mm"].moved_bytes, kernels["aten::mm"].peak_share) == (0, 0.0)
    assert "8 programs" in describe(summary(program.trace, rates))
