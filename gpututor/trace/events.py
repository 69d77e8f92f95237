"""Trace events: kernels, copies, waits and memory, with the floating types that kernels compute in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

REGION, COMPILES = "Torch-Compiled Region: ", "torch.compile: "
"""Prefixes of the names of ranges of compiled code: a call, a compilation."""
GRAPH_BREAK, RECOMPILES = "graph break: ", "recompile: "
"""Prefixes of the names of ranges with Dynamo's reason for a graph break, or for compiling again."""
UNCOMPILED = "; the whole function runs eagerly"
"""Suffix of the reason of a graph break that leaves its function uncompiled."""


class Kind(StrEnum):
    """Kinds of events of devices and of the host."""

    number: int
    """Value in a trace's column, from 1 in the order below."""

    def __new__(cls, value: str) -> Kind:
        member = str.__new__(cls, value)
        member._value_ = value
        member.number = len(cls.__members__) + 1
        return member

    KERNEL = "kernel"
    """Work launched on a device."""
    TRANSFER = "transfer"
    """A copy: host to device, device to host, or between two GPUs."""
    SYNCHRONISE = "synchronise"
    """A wait of the host for a device."""
    COLLECTIVE = "collective"
    """Joint work with devices of other processes, such as an all-reduce."""
    ALLOCATE = "allocate"
    FREE = "free"
    OUT_OF_MEMORY = "out of memory"
    """A failed allocation."""
    HAZARD = "hazard"
    """A data race: two streams use the same memory, one of them writes it, and nothing orders them."""
    RANGE = "range"
    """A named part of the program, such as an NVTX range."""


WORK = (Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)
"""Kinds that keep a device busy."""
GRAPH_REPLAY = "cuda graph"
"""Name of a replayed graph on a real GPU. It is recorded as one kernel: events cannot look into it."""


class Event(NamedTuple):
    """An event. Times are whole nanoseconds of a clock that starts with the recording."""

    kind: Kind
    name: str
    """The operator or call that caused it, such as `aten::mm` or `torch.cuda.synchronize`; a hazard's kind, such as
    `read after write`; a range's name."""
    device: str
    """The device, such as `cuda:0`; a transfer's accelerator."""
    stream: int
    """The number of the stream; 0 is the default stream."""
    source: str
    """A transfer's source device; else empty."""
    target: str
    """A transfer's target device; else empty."""
    size_bytes: int
    """Bytes of a transfer, of a kernel's inputs and outputs, sent by a collective, or allocated, freed or requested;
    else 0."""
    flops: float
    """A kernel's floating-point operations if known; else 0."""
    dtype: str
    """A kernel's compute dtype, see `compute_dtype`; else empty."""
    asynchronous: bool
    """True for a transfer for which the host did not wait (pinned memory and `non_blocking=True`), and a collective."""
    launched: int
    """Time of the host's launch; -1 if unknown."""
    start: int
    """Time at which it began on the device, or at which a wait of the host began; -1 if unknown."""
    end: int
    """Time at which it ended, like `start`. For memory and hazards all three times are equal."""
    allocated: int
    """Bytes allocated on the device after a memory event; else 0."""
    partner: int
    """The index of an earlier event; -1 if there is none, or if unknown. For a hazard, the other work. For a transfer,
    the last transfer of the same unchanged bytes to the same device. For freed memory, its allocation."""
    file: str
    """The learner's file that caused it; empty if none did."""
    line: int | None
    """The line of that file, from 1; None if no line caused it."""
    requested: int = 0
    """Bytes that the loads and stores of a kernel's programs request, if known; else 0."""
    moved: int = 0
    """Bytes of the 32-byte sectors that those loads and stores touched; else 0."""
    programs: int = 0
    """Programs in the kernel's grid, if known; else 0."""

    @property
    def to_device(self) -> bool:
        return self.kind is Kind.TRANSFER and self.source == "cpu" and self.target != "cpu"

    @property
    def to_host(self) -> bool:
        return self.kind is Kind.TRANSFER and self.source != "cpu" and self.target == "cpu"

    @property
    def between_devices(self) -> bool:
        return self.kind is Kind.TRANSFER and self.source != "cpu" and self.target != "cpu"

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end; 0 if unknown."""
        return self.end - self.start if self.start >= 0 and self.end >= self.start else 0


def lines_of(events: Iterable[Event]) -> list[tuple[int, int]]:
    """Return (line, number of events), the line with most events first; events without a line are left out."""
    return Counter(event.line for event in events if event.line is not None).most_common()


DTYPES = (
    "",
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float16", "bfloat16", "float32", "float64"),
    *("complex32", "complex64", "complex128"),
)
"""Floating dtypes from narrow to wide; "" means any other. A trace's column contains positions."""
NUMBERS = {name: number for number, name in enumerate(DTYPES)}
HALVES = ("float16", "bfloat16")


def compute_dtype(inputs: Iterable[str], outputs: Iterable[str]) -> str:
    """Return the wider of the first floating dtypes among an operator's inputs and outputs; "" without any.

    Dtypes are like `float32`. An operator that reads half precision and returns float32, as a softmax can, computes in
    float32. So does an operator that reads float32 and rounds at the end.
    """
    first = [next((NUMBERS[name] for name in names if name in NUMBERS), 0) for names in (inputs, outputs)]
    return DTYPES[max(first)]
