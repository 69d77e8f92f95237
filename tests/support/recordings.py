"""Recordings made by hand: folders as the judge writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from gpututor.grading.recording import (
    BaselineRecording,
    CallRecording,
    LineCost,
    Recording,
    RunRecording,
    read_recording,
    write_recording,
)
from gpututor.trace.columns import Trace
from gpututor.trace.events import Event, Kind
from gpututor.trace.serialization import write_trace

GPU = "cuda:0"
FILE = "01_twice_1_1.py"
"""The tiny course's first file."""
DEVICE = "cuda:0, virtual T4"
US = 1000


def small_trace(*, file: str = FILE, factor: float = 1.0, hazard: bool = True) -> Trace:
    """Return some 20 events on two streams: copies, kernels, waits, memory with a peak, a range, and a hazard.

    `factor` makes every time so much longer.
    """
    trace = Trace()

    def at(microseconds: float) -> int:
        return round(microseconds * US * factor)

    def memory(kind: Kind, when: float, size: int, held: int, line: int) -> None:
        moment = at(when)
        trace.add(
            kind, "aten::empty", GPU, size_bytes=size, allocated=held, file=file, line=line, launched=moment,
            start=moment, end=moment,
        )  # fmt: skip

    memory(Kind.ALLOCATE, 1, 4 << 20, 4 << 20, 1)
    trace.add(
        Kind.TRANSFER, "aten::copy_", GPU, size_bytes=4 << 20, file=file, line=1, launched=at(2), start=at(4),
        end=at(354), source="cpu", target=GPU,
    )  # fmt: skip
    trace.add(Kind.SYNCHRONISE, "aten::copy_", GPU, start=at(4), end=at(356), file=file, line=1)
    memory(Kind.ALLOCATE, 357, 8 << 20, 12 << 20, 2)
    writer = -1
    for number in range(4):
        begin = 360 + 60 * number
        writer = trace.add(
            Kind.KERNEL, "aten::mul", GPU, size_bytes=8 << 20, flops=1e6, dtype="float32", launched=at(begin - 3),
            start=at(begin), end=at(begin + 50), file=file, line=2,
        )  # fmt: skip
    trace.add(
        Kind.TRANSFER, "aten::copy_", GPU, stream=1, size_bytes=4 << 20, asynchronous=True, file=file, line=1,
        launched=at(400), start=at(405), end=at(755), source="cpu", target=GPU,
    )  # fmt: skip
    trace.add(
        Kind.KERNEL, "aten::add", GPU, stream=1, size_bytes=8 << 20, launched=at(560), start=at(760), end=at(860),
        file=file, line=2,
    )  # fmt: skip
    if hazard:
        trace.add(
            Kind.HAZARD, "read after write", GPU, stream=1, launched=at(560), start=at(560), end=at(560),
            partner=writer, file=file, line=2,
        )  # fmt: skip
    memory(Kind.FREE, 870, 4 << 20, 8 << 20, 2)
    trace.add(Kind.SYNCHRONISE, "torch.cuda.synchronize", GPU, start=at(880), end=at(905), file=file, line=2)
    trace.add(
        Kind.TRANSFER, "aten::item", GPU, size_bytes=4, source=GPU, target="cpu", launched=at(910), start=at(912),
        end=at(922), file=file, line=2,
    )  # fmt: skip
    trace.add(Kind.SYNCHRONISE, "aten::item", GPU, start=at(911), end=at(924), file=file, line=2)
    trace.add(Kind.RANGE, "step", "cpu", start=at(0), end=at(930), file=file, line=2)
    return trace


def long_trace(events: int = 20_000, *, waits: int = 1, file: str = FILE) -> Trace:
    """Return the kernels of a long loop on two streams, with some copies and waits, each so many times 9 µs."""
    trace, now = Trace(), 0
    for number in range(events):
        launched, line = now, 1 + number % 7
        match number % 50:
            case 48:
                trace.add(
                    Kind.TRANSFER, "aten::copy_", GPU, size_bytes=1 << 16, source="cpu", target=GPU, file=file,
                    line=line, launched=launched, start=now + 900, end=now + 12_000,
                )  # fmt: skip
                now += 12_500
            case 49:
                trace.add(Kind.SYNCHRONISE, "aten::item", GPU, start=now, end=now + waits * 9_000, file=file, line=line)
                now += waits * 9_000 + 500
            case place:
                trace.add(
                    Kind.KERNEL, ("aten::mul", "aten::add", "aten::relu")[number % 3], GPU, stream=place % 2,
                    size_bytes=4096, launched=launched, start=now + 4_000, end=now + 7_000, file=file, line=line,
                )  # fmt: skip
                now += 5_000
    return trace


def make_recording(
    folder: Path,
    *traces: Trace,
    baseline: Trace | None = None,
    scenario: str = "one GPU",
    device: str = DEVICE,
    file: str = FILE,
) -> Recording:
    """Write a recording of one run into the folder, a call for each trace (one `small_trace` where none is given)."""
    folder.mkdir(parents=True, exist_ok=True)
    traces = traces or (small_trace(file=file),)
    calls = _calls(folder, traces, "run1")
    baselines: tuple[BaselineRecording, ...] = ()
    if baseline is not None:
        baselines = (BaselineRecording("baseline.py", _calls(folder, [baseline] * len(traces), "run1_1")),)
    lines = line_costs([event for trace in traces for event in trace], file)
    run = RunRecording(scenario, device, "modelled" if "virtual" in device else "measured", calls, baselines, lines)
    write_recording(Recording((run,)), folder)
    return read_recording(folder)


def _calls(folder: Path, traces: Sequence[Trace], prefix: str) -> tuple[CallRecording, ...]:
    made = []
    for number, trace in enumerate(traces, 1):
        events = list(trace)
        name = f"{prefix}_{number}.trace"
        write_trace(trace, str(folder / name))
        allocations = (event for event in events if event.kind is Kind.ALLOCATE)
        memory = max(allocations, key=lambda event: event.allocated, default=None)
        which = f"call {number} of {len(traces)}, " if len(traces) > 1 else ""
        made.append(
            CallRecording(
                words=f"{which}with number={number}",
                trace=name,
                elapsed_ns=max((event.end for event in events if event.end >= 0), default=0),
                floor_ns=200_000,
                peak_bytes=memory.allocated if memory else 0,
                peak_line=memory.line if memory else None,
                events=len(events),
                dropped=trace.dropped,
            )
        )
    return tuple(made)


def line_costs(events: Sequence[Event], file: str = FILE) -> tuple[LineCost, ...]:
    """Return the cost of each line of the file."""
    by_line: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.line is not None and event.file == file:
            by_line[event.line].append(event)

    def of(line: int, kind: Kind) -> list[Event]:
        return [event for event in by_line[line] if event.kind is kind]

    def time(chosen: list[Event]) -> int:
        return sum(event.duration for event in chosen)

    return tuple(
        LineCost(
            line,
            len(kernels := of(line, Kind.KERNEL)),
            time(kernels),
            len(copies := of(line, Kind.TRANSFER)),
            time(copies),
            sum(event.size_bytes for event in copies),
            len(waits := of(line, Kind.SYNCHRONISE)),
            time(waits),
            sum(event.size_bytes for event in of(line, Kind.ALLOCATE)),
            tuple(dict.fromkeys(f"{file}:{line} reads what aten::mul writes" for _ in of(line, Kind.HAZARD))),
        )
        for line in sorted(by_line)
    )
