"""The recorder of device events, and the source lines that caused them.

Conventions, the same for the virtual GPU and for real devices (`gpututor.devices.real`):

- A **kernel** is an operator that does work on a device, named as PyTorch names it (`aten::mm`). Views, `detach`,
  operators that only change metadata and `torch.empty` are not kernels. Work on the CPU is recorded too, with device
  `cpu`.
- A **transfer** is a copy between two devices, with the bytes that cross. `torch.tensor([1.0], device="cuda")` is a
  transfer, as the values come from the host; `torch.zeros(3, device="cuda")` is not. If a move also changes the dtype,
  CUDA converts a blocking copy on the CPU, a `non_blocking` copy on the GPU. The bytes are counted accordingly. Empty
  transfers are not recorded.
- A **collective** (`c10d::allreduce_`, also `c10d::send`) is work that a device shares with devices of other processes.
  It is recorded when it starts, with the bytes that the device sends. Each process has a trace of its own.
- The host **synchronizes** once with each blocking device-to-host copy (`.cpu()`, `.tolist()`, `.item()`, `print`). It
  also synchronizes once with operators whose result depends on values (`nonzero`, masks, `unique`, `torch.equal`), and
  in `torch.cuda.synchronize()`. `.item()`, `bool()`, `int()`, `float()` are one transfer of the element's bytes and one
  sync. `print` is one transfer of the tensor's bytes and one sync. Operators that wait for a count are one sync and no
  transfer. A host-to-device copy of pageable memory blocks too, but only for its own length. It is not counted as a
  wait.
- **Memory** is an event for each tensor's memory that is allocated, freed or refused. It has the bytes that are
  allocated on the device after it.
- A **hazard** is two streams that use the same memory without an order between them, if at least one writes. Its name
  is `read after write`, `write after read` or `write after write`, as the host launched them. `freed in use` is memory
  that was freed while another stream still used it, without `record_stream`. Its own stream does not wait before the
  memory is used again. `graphs share a pool` is two graphs with memory in common that are replayed at the same time.
  `freed before a replay` is a replay that uses memory of a tensor that is gone. A hazard has the time of the later
  access, or of the free, and points at the earlier access.
- A **range** is a part of the host's time that the program named (NVTX), from its push to its pop.

Times are whole nanoseconds since the machine was switched on, or since the recording began; -1 if unknown. The host's
part (`launched`) is known at once; the times of a kernel or a copy are often known later (`set_times`). A wait lasts
from the moment at which the host begins to wait until it continues.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any, TypedDict, Unpack

from gpututor.trace.columns import LIMIT, Trace
from gpututor.trace.events import Kind

__all__ = ["Place", "Recorder"]


Place = tuple[str, int | None]
"""A file and a line of it; `NOWHERE` for none."""
NOWHERE: Place = ("", None)


class LineFinder:
    """Finds the learner's line that runs. Safe from any thread, at any time."""

    def __init__(self, files: Collection[str], is_learners: Callable[[str], bool] | None = None) -> None:
        """`files` are names of files as code objects have them; `is_learners` decides about any other name."""
        self._wanted = frozenset(files)
        self._decides = is_learners
        self._learners: dict[str, bool] = {}
        """The answers of `is_learners` for all files with code that ran."""

    def find(self, skip: int = 0, frame: FrameType | None = None) -> Place:
        """Return the file and line of the nearest frame that runs a learner's code; `NOWHERE` if there is none.

        Skips `skip` callers, which the caller knows not to be a learner's. Starts at `frame`, if given, such as the
        current frame of another thread.
        """
        known = self._learners
        frame = frame or sys._getframe(1 + skip)
        while frame is not None:
            file = frame.f_code.co_filename
            is_learners = known.get(file)
            if is_learners is None:
                is_learners = known[file] = self.is_learners(file)
            if is_learners:
                return file, frame.f_lineno
            frame = frame.f_back
        return NOWHERE

    def is_learners(self, file: str) -> bool:
        """Return True for the name of a learner's file."""
        return file in self._wanted or (self._decides is not None and self._decides(file))


MAX_NAME = 200
"""Characters of a range's name; longer names are cut."""


class Details(TypedDict, total=False):
    """Stream and times of an event, as in `gpututor.trace.events.Event`."""

    stream: int
    launched: int
    start: int
    end: int


class Recorder:
    """Writes events into a trace, each with the line of the learner's file that caused it.

    Every method returns the event's index in the trace, or -1 if nothing was recorded. `place` is the event's line, if
    that is not the line that runs now (see `place()`). No lock is taken: memory may be freed, and the event recorded,
    in the middle of anything.
    """

    def __init__(
        self,
        learner_files: Collection[str] = (),
        *,
        is_learners: Callable[[str], bool] | None = None,
        limit: int | None = LIMIT,
    ) -> None:
        """`LineFinder` explains the first two. `limit` is the number of events to store, None for all."""
        self.switched_off = 0
        """Number of times that `enabled` became false: unchanged between two reads only if the recorder stayed on."""
        self.trace = Trace(limit)
        self.enabled = True
        self.finish: Callable[[], None] = lambda: None
        """Called before the trace is read: lets a clock find out when the work that is still queued runs."""
        self.unseen: Callable[[str], None] = lambda device: None
        """Called for work on a device that is not recorded because the recorder is off."""
        self.places = LineFinder(learner_files, is_learners)
        self.place = self.places.find
        """Returns the learner's file and line that run now: `place(skip)`, see `Places.find`."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "enabled" and not value:
            self.switched_off += 1
        object.__setattr__(self, name, value)

    def complete(self) -> Trace:
        """Return the trace, with the times of all events that are known by now."""
        self.finish()
        return self.trace

    def kernel(
        self,
        name: str,
        device: str,
        size_bytes: int,
        *,
        stream: int = 0,
        flops: float = 0.0,
        dtype: str = "",
        launched: int = -1,
        start: int = -1,
        end: int = -1,
        place: Place | None = None,
    ) -> int:
        """Record work that was launched on `device`; `size_bytes` of its inputs and outputs."""
        # In the order of `Event`'s fields, here and in the next three methods: keywords take longer.
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            Kind.KERNEL, name, device, stream, "", "", size_bytes, flops, dtype, False,
            launched, start, end, 0, -1, file, line,
        )  # fmt: skip

    def transfer(
        self,
        source: str,
        target: str,
        size_bytes: int,
        asynchronous: bool = False,
        name: str = "aten::_to_copy",
        *,
        stream: int = 0,
        launched: int = -1,
        start: int = -1,
        end: int = -1,
        place: Place | None = None,
    ) -> int:
        """Record a copy of `size_bytes` from `source` to `target`."""
        if not self.enabled or size_bytes == 0:
            return -1
        file, line = place or self.place()
        device = source if target == "cpu" else target
        return self.trace.add(
            Kind.TRANSFER, name, device, stream, source, target, size_bytes, 0.0, "", asynchronous,
            launched, start, end, 0, -1, file, line,
        )  # fmt: skip

    def synchronize(
        self,
        name: str,
        device: str,
        *,
        stream: int = 0,
        launched: int = -1,
        start: int = -1,
        end: int = -1,
        place: Place | None = None,
    ) -> int:
        """Record that the host waited for `device`, from `start` (else `launched`) to `end`."""
        if not self.enabled:
            return -1
        file, line = place or self.place()
        start = start if start >= 0 else launched
        return self.trace.add(
            Kind.SYNCHRONISE, name, device, stream, "", "", 0, 0.0, "", False,
            launched, start, end, 0, -1, file, line,
        )  # fmt: skip

    def memory(
        self,
        kind: Kind,
        device: str,
        size_bytes: int,
        allocated: int,
        *,
        launched: int = -1,
        stream: int = 0,
        partner: int = -1,
        place: Place | None = None,
    ) -> int:
        """Record that `size_bytes` were allocated (`Kind.ALLOCATE`), freed (`FREE`) or missing (`OUT_OF_MEMORY`).

        `allocated` is the size in bytes of all storages after it. For freed memory, `stream` is the stream that had
        it, and `partner` the event of its allocation.
        """
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            kind, kind._value_, device, stream, "", "", size_bytes, 0.0, "", False,
            launched, launched, launched, allocated, partner, file, line,
        )  # fmt: skip

    def collective(
        self, name: str, device: str, size_bytes: int, *, place: Place | None = None, **details: Unpack[Details]
    ) -> int:
        """Record a collective in which `device` sends `size_bytes`."""
        return self._add(Kind.COLLECTIVE, name, device, place, size_bytes=size_bytes, asynchronous=True, **details)

    def hazard(
        self, name: str, device: str, *, stream: int = 0, partner: int, launched: int, place: Place | None = None
    ) -> int:
        """Record that work on `stream` collides with the earlier event `partner`; `name` says in which way."""
        times: Details = {"launched": launched, "start": launched, "end": launched}
        return self._add(Kind.HAZARD, name, device, place, stream=stream, partner=partner, **times)

    def range(self, name: str, *, launched: int, end: int, device: str = "cpu", place: Place | None = None) -> int:
        """Record that the host was in the part `name` of the program from `launched` to `end`."""
        return self._add(Kind.RANGE, name[:MAX_NAME], device, place, launched=launched, start=launched, end=end)

    def _add(self, kind: Kind, name: str, device: str, place: Place | None, **details: Any) -> int:
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(kind, name, device, file=file, line=line, **details)

    def set_times(self, index: int, start: int, end: int) -> None:
        """Record when event `index` ran; -1 is an event that was not recorded."""
        self.trace.set_times(index, start, end)
