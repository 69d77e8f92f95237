"""Traces of small programs, built by hand: a host that launches, and a GPU that runs one thing after another."""

from __future__ import annotations

import random
from typing import Any

from gpututor.trace.arrays import TraceArrays
from gpututor.trace.columns import TYPES, Trace
from gpututor.trace.events import Event, Kind
from gpututor.trace.memory import MemoryTimeline, memory_curves
from gpututor.trace.timeline import Lane, TimelineLayout

US, MS = 1_000, 1_000_000
FILE = "/home/somebody/train.py"


def kernel_trace(events: int = 5000) -> Trace:
    """Return a trace of kernels one after the other, and of a collective."""
    trace = Trace()
    for number in range(events):
        times: dict[str, Any] = {"launched": number, "start": number + 1, "end": number + 2}
        trace.add(Kind.KERNEL, f"aten::{number % 3}", "cuda:0", flops=0.5, **times)
    trace.add(Kind.COLLECTIVE, "c10d::allreduce_", "cuda:0", stream=1_000_000, launched=1, start=2, end=9, line=3)
    return trace


def layout_of(*programs: Program) -> TimelineLayout:
    """Return the timeline of one program, or of the ranks of several."""
    names = [f"rank {number}" for number in range(len(programs))] if len(programs) > 1 else [""]
    return TimelineLayout([(name, TraceArrays(program.trace)) for name, program in zip(names, programs, strict=True)])


def lane_of(layout: TimelineLayout, name: str) -> Lane:
    return next(lane for lane in layout.lanes if lane.name == name)


class Program:
    """A host and the streams of one GPU. Times are nanoseconds; each call names the line that makes it."""

    def __init__(self, device: str = "cuda:0") -> None:
        self.trace = Trace()
        self.device = device
        self.now = 0
        self.free_at: dict[int, int] = {}
        self.allocated = 0

    def kernel(
        self,
        line: int,
        time: int,
        *,
        name: str = "aten::mm",
        stream: int = 0,
        launch: int = 5 * US,
        flops: float = 0.0,
        moved: int = 0,
    ) -> int:
        """Launch a kernel; the host continues. `moved` bytes make it a Triton kernel that asks for 1 MiB."""
        self.now += launch
        times = self.now, *self._run(stream, time)
        work: dict[str, Any] = {"size_bytes": 1 << 20, "flops": flops}
        if moved:
            work |= {"requested": 1 << 20, "moved": moved, "programs": 8}
        return self._add(Kind.KERNEL, name, line, *times, stream=stream, **work)

    def copy(
        self,
        line: int,
        time: int,
        size_bytes: int = 1 << 20,
        *,
        asynchronous: bool = False,
        stream: int = 0,
        partner: int = -1,
        up: bool = True,
        name: str = "aten::_to_copy",
    ) -> int:
        """Copy to the device, or from it; the host waits for a synchronous copy."""
        self.now += 5 * US
        times = self.now, *self._run(stream, time)
        if not asynchronous:
            self.now = times[-1]
        source, target = ("cpu", self.device) if up else (self.device, "cpu")
        fields: dict[str, Any] = {"stream": stream, "size_bytes": size_bytes, "partner": partner}
        return self._add(
            Kind.TRANSFER, name, line, *times, source=source, target=target, asynchronous=asynchronous, **fields
        )

    def wait(self, line: int, name: str = "torch.cuda.synchronize") -> int:
        """Wait on the host for all streams."""
        began = self.now
        self.now = max(self.now + 3 * US, *self.free_at.values())
        return self._add(Kind.SYNCHRONISE, name, line, began, began, self.now)

    def read(self, line: int, time: int, *, launch: int) -> int:
        """Copy a value to the host, which waits for it, as `.item()` does."""
        self.now += launch
        launched, name = self.now, "aten::_local_scalar_dense"
        start, self.now = self._run(0, time)
        fields: dict[str, Any] = {"source": self.device, "target": "cpu", "size_bytes": 4}
        self._add(Kind.TRANSFER, name, line, launched, start, self.now, **fields)
        return self._add(Kind.SYNCHRONISE, name, line, launched, launched, self.now)

    def compute(self, line: int, time: int, *, name: str = "aten::add", size_bytes: int = 0) -> int:
        """Run an operator on the CPU."""
        began = self.now
        self.now += time
        return self._add(Kind.KERNEL, name, line, began, began, self.now, device="cpu", size_bytes=size_bytes)

    def allocate(self, line: int, size_bytes: int) -> int:
        """Allocate memory; a negative number of bytes frees it."""
        self.allocated += size_bytes
        kind = Kind.ALLOCATE if size_bytes > 0 else Kind.FREE
        return self._moment(kind, "", line, size_bytes=abs(size_bytes), allocated=self.allocated)

    def out_of_memory(self, line: int, size_bytes: int) -> int:
        return self._moment(Kind.OUT_OF_MEMORY, "", line, size_bytes=size_bytes, allocated=self.allocated)

    def hazard(self, line: int, name: str, partner: int, *, stream: int = 1) -> int:
        return self._moment(Kind.HAZARD, name, line, partner=partner, stream=stream)

    def _moment(self, kind: Kind, name: str, line: int, **fields: Any) -> int:
        return self._add(kind, name or str(kind), line, self.now, self.now, self.now, **fields)

    def _add(
        self, kind: Kind, name: str, line: int, launched: int, start: int, end: int, *, device: str = "", **fields: Any
    ) -> int:
        fields.update(launched=launched, start=start, end=end)
        return self.trace.add(kind, name, device or self.device, file=FILE, line=line, **fields)

    def _run(self, stream: int, time: int) -> tuple[int, int]:
        start = max(self.now, self.free_at.get(stream, 0))
        self.free_at[stream] = start + time
        return start, start + time


def mixed_program() -> Program:
    """Return a program with memory, copies, kernels, a wait, a hazard and a range, in 1 ms."""
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


def filled(count: int, seed: int = 0) -> tuple[Trace, list[Event]]:
    """Return a trace of random events, and the events."""
    draw = random.Random(seed)
    trace, events = Trace(), []
    for index in range(count):
        event = Event(
            kind=draw.choice(list(Kind)),
            name=draw.choice(["aten::mm", "aten::add", "", "naïve ☃ \ud800", "x" * 50]),
            device=draw.choice(["cpu", "cuda:0", "cuda:1"]),
            stream=draw.choice([0, 0, 7, 1 << 47]),
            source=draw.choice(["", "cpu", "cuda:0"]),
            target=draw.choice(["", "cpu", "cuda:1"]),
            size_bytes=draw.choice([0, 4, 1 << 40]),
            flops=draw.choice([0.0, 2.5, 1e15]),
            dtype=draw.choice(["", "float16", "complex128"]),
            asynchronous=draw.random() < 0.5,
            launched=draw.choice([-1, draw.randrange(1 << 50)]),
            start=(start := draw.choice([-1, draw.randrange(1 << 50)])),
            end=-1 if start < 0 else start + draw.randrange(1 << 30),
            allocated=draw.choice([0, 1 << 35]),
            partner=draw.choice([-1, draw.randrange(index + 1)]),
            file=(file := draw.choice(["", "a.py", "/b/c.py"])),
            line=draw.randrange(1, 9000) if file else None,
            programs=(programs := draw.choice([0, 0, 12, 1 << 40])),
            requested=1 << 41 if programs else 0,
            moved=1 << 42 if programs else 0,
        )
        events.append(event)
        values = {name: getattr(event, name) for name in TYPES if name not in ("kind", "name", "device")}
        assert trace.add(event.kind, event.name, event.device, **values) == index
    return trace, events


MIB = 1 << 20


class Memory:
    """A trace of allocations on one device."""

    def __init__(self, before: int = 0, device: str = "cuda:0") -> None:
        self.trace = Trace()
        self.device = device
        self.allocated = before

    def take(self, at: int, line: int | None, size_bytes: int) -> int:
        self.allocated += size_bytes
        return self._add(Kind.ALLOCATE, at, line, size_bytes)

    def free(self, at: int, size_bytes: int, taken: int = -1) -> int:
        self.allocated -= size_bytes
        return self._add(Kind.FREE, at, 1, size_bytes, taken)

    def refuse(self, at: int, line: int, size_bytes: int) -> None:
        self._add(Kind.OUT_OF_MEMORY, at, line, size_bytes)

    def curve(self) -> MemoryTimeline:
        (timeline,) = memory_curves(TraceArrays(self.trace))
        return timeline

    def _add(self, kind: Kind, at: int, line: int | None, size_bytes: int, partner: int = -1) -> int:
        return self.trace.add(
            kind, str(kind), self.device, size_bytes=size_bytes, allocated=self.allocated, launched=at, start=at,
            end=at, partner=partner, file=FILE if line else "", line=line,
        )  # fmt: skip
