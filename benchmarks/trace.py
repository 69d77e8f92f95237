"""Cost of a trace: time and memory of an event, a million of them, their summary and their timeline.

Run it with `python benchmarks/trace.py [EVENTS]`. Nothing is asserted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpututor.trace.columns import ROW, Trace
from gpututor.trace.events import Kind
from gpututor.trace.export import write_timelines
from gpututor.trace.serialization import trace_to_json
from gpututor.trace.summary import summary

KINDS = (Kind.KERNEL,) * 6 + (Kind.ALLOCATE, Kind.FREE, Kind.TRANSFER, Kind.SYNCHRONISE)


def resident_bytes() -> int:
    """Return the bytes of this process that are in RAM (Linux's /proc)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def ignore(*_: object, **__: object) -> None:
    """Replace `Trace.add`, to time the loop without it."""


def add(append: Callable[..., object], begin: int, end: int) -> float:
    """Add events number `begin` to `end` as a program would; return the seconds."""
    names = [f"aten::operator_{number}" for number in range(60)]
    started = time.perf_counter()
    for index in range(begin, end):
        kind = KINDS[index % 10]
        launched = index * 6_000
        source, target = ("cpu", "cuda:0") if kind is Kind.TRANSFER else ("", "")
        append(
            kind,
            names[index % 60],
            "cuda:0",
            source=source,
            target=target,
            size_bytes=4096 + index,
            flops=1e6 if kind is Kind.KERNEL else 0.0,
            launched=launched,
            start=launched + 100,
            end=launched + 4_100,
            allocated=1 << 30 if kind in (Kind.ALLOCATE, Kind.FREE) else 0,
            file="train.py",
            line=1 + index % 200,
        )
    return time.perf_counter() - started


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    summary(Trace())  # imports NumPy, whose time and memory must not count
    before, trace = resident_bytes(), Trace(limit=None)
    halves = [add(trace.add, 0, count // 2), add(trace.add, count // 2, count)]
    used = resident_bytes() - before
    alone = (sum(halves) - add(ignore, 0, count)) / count * 1e6
    print(f"{count:,} events")
    print(f"  one add                     {alone:8.2f} µs, without the call and its arguments")
    print(f"  second half / first half    {halves[1] / halves[0]:8.2f}")
    print(f"  bytes of an event           {ROW.size:8}")
    print(f"  resident memory             {used / 2**20:8.0f} MiB, {used / count:.0f} bytes for an event")
    print(f"  summary with advice         {seconds(lambda: summary(trace)):8.2f} s")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        print(f"  for Chrome                  {seconds(lambda: write_timelines([('', trace)], nowhere)):8.2f} s")
    print(f"  for another process         {seconds(lambda: trace_to_json(trace)):8.2f} s")
    print(f"  resident memory after all   {(resident_bytes() - before) / 2**20:8.0f} MiB")


if __name__ == "__main__":
    main()
