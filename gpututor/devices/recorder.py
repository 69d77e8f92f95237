"""The recorder: every device, virtual or real, writes what it did here.

Conventions, the same for the virtual GPU and for real devices (`gpututor.devices.observer`):

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
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from types import CodeType, FrameType

from gpututor.trace.events import Kind, Trace


class Recorder:
    """Writes events into a trace, each with the line of the learner's file that caused it."""

    def __init__(self, learner_files: Collection[str] = ()) -> None:
        self.trace = Trace()
        self.enabled = True
        self._learner_files = frozenset(learner_files)
        # By the code object's id: to hash one reads all of its code. The objects are kept, so that no id is used twice.
        self._is_learners: dict[int, bool] = {}
        self._codes: list[CodeType] = []
        # A trace is eight columns: two threads that append at once would mix their rows.
        self._lock = threading.Lock()

    def kernel(self, name: str, device: str, size_bytes: int) -> None:
        """Work that was launched on `device`; `size_bytes` of its inputs and outputs."""
        if self.enabled:
            line = self.line()
            with self._lock:
                self.trace.add(Kind.KERNEL, name, device, size_bytes=size_bytes, line=line)

    def transfer(
        self, source: str, target: str, size_bytes: int, asynchronous: bool = False, name: str = "aten::_to_copy"
    ) -> None:
        """A copy of `size_bytes` from `source` to `target`."""
        if not self.enabled or size_bytes == 0:
            return
        line = self.line()
        with self._lock:
            self.trace.add(
                Kind.TRANSFER,
                name,
                source if target == "cpu" else target,
                source=source,
                target=target,
                size_bytes=size_bytes,
                asynchronous=asynchronous,
                line=line,
            )

    def collective(self, name: str, device: str, size_bytes: int) -> None:
        """What `device` does together with those of other processes; `size_bytes` that it sends."""
        if self.enabled:
            line = self.line()
            with self._lock:
                self.trace.add(Kind.COLLECTIVE, name, device, size_bytes=size_bytes, asynchronous=True, line=line)

    def synchronise(self, name: str, device: str) -> None:
        """The host waited for `device`."""
        if self.enabled:
            line = self.line()
            with self._lock:
                self.trace.add(Kind.SYNCHRONISE, name, device, line=line)

    def line(self) -> int | None:
        """The line of the nearest frame that runs a learner's file; None when there is none."""
        known = self._is_learners
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            learners = known.get(id(frame.f_code))
            if learners is None:
                learners = self._meet(frame.f_code)
            if learners:
                return frame.f_lineno
            frame = frame.f_back
        return None

    def _meet(self, code: CodeType) -> bool:
        """Whether a learner wrote that code, which was not seen before."""
        self._codes.append(code)
        learners = self._is_learners[id(code)] = code.co_filename in self._learner_files
        return learners
