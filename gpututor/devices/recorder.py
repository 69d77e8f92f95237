"""The recorder of device events, and the source lines that caused them.

Conventions, the same for the virtual GPU and for real devices (`gpututor.devices.real`):

- A **kernel** is an operator that does work on a device, named as PyTorch names it (`aten::mm`). Views, `detach`,
  operators that only change metadata and `torch.empty` are none. Work on the CPU is recorded too, with device `cpu`.
- A **transfer** is a copy between two devices, with the bytes that cross. `torch.tensor([1.0], device="cuda")` is one:
  the values come from the host. `torch.zeros(3, device="cuda")` is none. Where a move also changes the dtype, CUDA
  converts on the CPU when the copy blocks, and on the GPU when it is `non_blocking`: the bytes are counted
  accordingly. A transfer of nothing is not recorded.
- A **collective** (`c10d::allreduce_`, also `c10d::send`) is what a device does together with those of other
  processes, with the bytes that it sends; written down when it starts. The processes have a trace each.
- The host **synchronises** once with each blocking device-to-host copy (`.cpu()`, `.tolist()`, `.item()`, `print`),
  with operators whose result depends on values (`nonzero`, masks, `unique`, `torch.equal`), and in
  `torch.cuda.synchronize()`. `.item()`, `bool()`, `int()`, `float()` are one transfer of the element's bytes and one
  synchronise. `print` is one transfer of the tensor's bytes and one synchronise. Operators that wait for a count are
  one synchronise and no transfer. A host-to-device copy of pageable memory blocks too, but only for its own length,
  and is not counted as a wait.
- **Memory** is an event for each tensor's memory that is taken, given back or refused, with the bytes that are
  allocated on the device after it.
- A **hazard** is two streams that use the same memory, at least one of them to write, with nothing between that says
  which comes first: `read after write`, `write after read`, `write after write`, as the host launched them; and
  `freed in use`, where memory went back while another stream still used it, without `record_stream`. It is written
  down where the later of the two is launched, and points at the earlier one.
- A **range** is what the host gave a name (NVTX), from its push to its pop.

Times are whole nanoseconds since the machine was switched on, or since the recording began; -1 where nobody knows. The
host's part (`launched`) is known at once; when a kernel or a copy ran is often known later (`set_times`). A wait begins
when the host begins to wait, and ends when it goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import CodeType, FrameType

from gpututor.trace.columns import LIMIT, Trace
from gpututor.trace.events import Kind

__all__ = ["Place", "Recorder"]


Place = tuple[str, int | None]
"""A file, and a line of it; `NOWHERE` for none."""
NOWHERE: Place = ("", None)


class Places:
    """Finds the learner's line that runs. Safe from any thread, at any time."""

    def __init__(self, files: Collection[str], is_learners: Callable[[str], bool] | None = None) -> None:
        """`files` are names of files as code objects have them; `is_learners` decides about any other name."""
        self._wanted = frozenset(files)
        self._decides = is_learners
        # By the code object's id: to hash one reads all of its code. The objects are kept, so that no id is used twice.
        self._files: dict[int, str] = {}
        self._codes: list[CodeType] = []

    def find(self, skip: int = 0, frame: FrameType | None = None) -> Place:
        """The file and line of the nearest frame that runs a learner's code; `NOWHERE` when there is none.

        `skip` callers are not looked at: the caller knows that they are not a learner's. `frame` is where another
        thread is, to look there instead.
        """
        known = self._files
        frame = frame or sys._getframe(1 + skip)
        while frame is not None:
            file = known.get(id(frame.f_code))
            if file is None:
                file = self._meet(frame.f_code)
            if file:
                return file, frame.f_lineno
            frame = frame.f_back
        return NOWHERE

    def _meet(self, code: CodeType) -> str:
        """The file of that code, which was not seen before; empty when no learner wrote it."""
        self._codes.append(code)
        name = code.co_filename
        learners = name in self._wanted or (self._decides is not None and self._decides(name))
        file = self._files[id(code)] = name if learners else ""
        return file


MAX_NAME = 200
"""Characters of a name that a program made up; what is longer is cut."""


Where = Place | None


def _nothing() -> None:
    """Nothing is unfinished."""


def _untold(device: str) -> None:
    """Nobody wants to know."""


class Recorder:
    """Writes events into a trace, each with the line of the learner's file that caused it.

    Every method gives the event's index in the trace, or -1 where nothing was written. `place` is where the event
    belongs, when that is not where the call is made (see `place()`). No lock is taken: memory may be given back, and
    written down, in the middle of anything.
    """

    def __init__(
        self,
        learner_files: Collection[str] = (),
        *,
        is_learners: Callable[[str], bool] | None = None,
        limit: int | None = LIMIT,
    ) -> None:
        """Whose code is a learner's: see `Places`. `limit` is how many events are kept, None for all."""
        self.switched_off = 0
        """Times that `enabled` became false: between two looks at a recorder that is on, nobody may have done that."""
        self.trace = Trace(limit)
        self.enabled = True
        self.finish: Callable[[], None] = _nothing
        """Called before the trace is read: lets a clock find out when the work that is still queued runs."""
        self.unseen: Callable[[str], None] = _untold
        """Told of work on a device that the recorder, which is off, does not write down."""
        self.place = Places(learner_files, is_learners).find
        """Gives the learner's file and line that run now: `place(skip)`, see `Places.find`."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "enabled" and not value:
            self.switched_off += 1
        object.__setattr__(self, name, value)

    def complete(self) -> Trace:
        """The trace, with the times of all events that are known by now."""
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
        place: Where = None,
    ) -> int:
        """Work that was launched on `device`; `size_bytes` of its inputs and outputs; `dtype` as of an event."""
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            Kind.KERNEL,
            name,
            device,
            stream=stream,
            size_bytes=size_bytes,
            flops=flops,
            dtype=dtype,
            launched=launched,
            start=start,
            end=end,
            file=file,
            line=line,
        )

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
        place: Where = None,
    ) -> int:
        """A copy of `size_bytes` from `source` to `target`."""
        if not self.enabled or size_bytes == 0:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            Kind.TRANSFER,
            name,
            source if target == "cpu" else target,
            stream=stream,
            source=source,
            target=target,
            size_bytes=size_bytes,
            asynchronous=asynchronous,
            launched=launched,
            start=start,
            end=end,
            file=file,
            line=line,
        )

    def collective(
        self,
        name: str,
        device: str,
        size_bytes: int,
        *,
        stream: int = 0,
        launched: int = -1,
        start: int = -1,
        end: int = -1,
        place: Where = None,
    ) -> int:
        """What `device` does together with those of other processes; `size_bytes` that it sends."""
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            Kind.COLLECTIVE,
            name,
            device,
            stream=stream,
            size_bytes=size_bytes,
            asynchronous=True,
            launched=launched,
            start=start,
            end=end,
            file=file,
            line=line,
        )

    def synchronise(
        self,
        name: str,
        device: str,
        *,
        stream: int = 0,
        launched: int = -1,
        start: int = -1,
        end: int = -1,
        place: Where = None,
    ) -> int:
        """The host waited for `device`, from `start` (else `launched`) to `end`."""
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            Kind.SYNCHRONISE,
            name,
            device,
            stream=stream,
            launched=launched,
            start=start if start >= 0 else launched,
            end=end,
            file=file,
            line=line,
        )

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
        place: Where = None,
    ) -> int:
        """`size_bytes` of `device` were allocated (`Kind.ALLOCATE`), freed (`FREE`), or not there (`OUT_OF_MEMORY`).

        `allocated` is what all storages take after it, in bytes; of memory that was freed, `stream` is the one that
        had it, and `partner` the event of its allocation.
        """
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            kind,
            kind._value_,
            device,
            stream=stream,
            size_bytes=size_bytes,
            allocated=allocated,
            launched=launched,
            start=launched,
            end=launched,
            partner=partner,
            file=file,
            line=line,
        )

    def hazard(
        self,
        name: str,
        device: str,
        *,
        stream: int = 0,
        partner: int = -1,
        launched: int = -1,
        place: Where = None,
    ) -> int:
        """Work on `stream` collides with the earlier event `partner`, in the way that `name` says."""
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            Kind.HAZARD,
            name,
            device,
            stream=stream,
            partner=partner,
            launched=launched,
            start=launched,
            end=launched,
            file=file,
            line=line,
        )

    def range(self, name: str, *, launched: int, end: int, device: str = "cpu", place: Where = None) -> int:
        """The host was in the part `name` of the program from `launched` to `end`."""
        if not self.enabled:
            return -1
        file, line = place or self.place()
        return self.trace.add(
            Kind.RANGE, name[:MAX_NAME], device, launched=launched, start=launched, end=end, file=file, line=line
        )

    def repeats(self, index: int, earlier: int) -> None:
        """Copy `index` brought the same bytes to the same device as copy `earlier`."""
        self.trace.set_partner(index, earlier)

    def set_times(self, index: int, start: int, end: int) -> None:
        """When event `index` ran; -1 is an event that was not written down."""
        self.trace.set_times(index, start, end)
