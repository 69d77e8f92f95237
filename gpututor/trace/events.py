"""Trace events: kernels, copies, waits and memory, with the floating types that kernels compute in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What kind of thing a device did, or the host did with it."""

    number: int
    """From 1, in the order below: how a trace keeps it."""

    def __new__(cls, value: str) -> Kind:
        member = str.__new__(cls, value)
        member._value_ = value
        member.number = len(cls.__members__) + 1
        return member

    KERNEL = "kernel"
    """Work that was launched on a device."""
    TRANSFER = "transfer"
    """A copy of bytes from one device to another: host to device, device to host, or between two GPUs."""
    SYNCHRONISE = "synchronise"
    """The host waited for a device."""
    COLLECTIVE = "collective"
    """Work that a device does together with those of other processes, such as an all-reduce."""
    ALLOCATE = "allocate"
    """Memory of a device was taken."""
    FREE = "free"
    """Memory of a device was given back."""
    OUT_OF_MEMORY = "out of memory"
    """Memory of a device was asked for that it does not have."""
    HAZARD = "hazard"
    """Two streams use the same memory, one of them writes it, and nothing says which comes first."""
    RANGE = "range"
    """A part of the program that the host gave a name, such as an NVTX range."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a device did. Times are whole nanoseconds of one clock, which starts with the recording."""

    kind: Kind
    name: str
    """The operator or call that caused it, such as `aten::mm` or `torch.cuda.synchronize`. For a hazard: which one,
    such as `read after write`. For a range: the name that it was given."""
    device: str
    """The device that did it, such as `cuda:0`. For a transfer: the accelerator's side of it."""
    stream: int
    """The number of the stream; 0 is the default stream."""
    source: str
    """For a transfer: the device that the bytes came from. Else empty."""
    target: str
    """For a transfer: the device that the bytes went to. Else empty."""
    size_bytes: int
    """For a transfer: bytes moved. For a kernel: bytes of its inputs and outputs. For a collective: bytes sent.
    For memory: bytes taken, given back or asked for. Else 0."""
    flops: float
    """For a kernel: floating-point operations, where they are known; else 0."""
    dtype: str
    """For a kernel: the floating type that it ran in, such as `float16`; else empty. See `gpututor.trace.events`."""
    asynchronous: bool
    """For a transfer: the host did not wait for it (pinned memory and `non_blocking=True`). True for a collective."""
    launched: int
    """When the host caused it; -1 where that is not known."""
    start: int
    """When it began: for kernels and copies on the device, for a wait when the host began to wait. -1: not known."""
    end: int
    """When it was done, as `start`. For memory and hazards all three times are the same."""
    allocated: int
    """For memory: bytes allocated on the device after it. Else 0."""
    partner: int
    """For a hazard: the index of the earlier event that it collides with. For a transfer: that of an earlier one that
    brought the same bytes, unchanged since, to the same device. For memory that was given back: that of its
    allocation. Else, or where that is not known, -1."""
    file: str
    """The learner's file that caused it; empty when none did."""
    line: int | None
    """The line of that file, from 1; None when none of its lines caused it."""

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
        """Nanoseconds from start to end; 0 where they are not known."""
        return self.end - self.start if self.start >= 0 and self.end >= self.start else 0


def lines_of(events: list[Event]) -> list[tuple[int, int]]:
    """(line, how many events it caused), the line with most events first; events without a line are left out."""
    return Counter(event.line for event in events if event.line is not None).most_common()


DTYPES = (
    "",
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float16", "bfloat16", "float32", "float64"),
    *("complex32", "complex64", "complex128"),
)
"""From narrow to wide; the first is none, or one that is not among them. A trace keeps the position."""
NUMBERS = {name: number for number, name in enumerate(DTYPES)}
HALVES = ("float16", "bfloat16")


def compute_dtype(inputs: Iterable[str], outputs: Iterable[str]) -> str:
    """The wider of the first floating type among an operator's inputs and the first among its outputs; "" without.

    Types are named as in PyTorch, without its name: `float32`. What reads half precision and gives float32, as a
    softmax can, computes in float32; so does what reads float32 and rounds at its end.
    """
    first = [next((NUMBERS[name] for name in names if name in NUMBERS), 0) for names in (inputs, outputs)]
    return DTYPES[max(first)]
