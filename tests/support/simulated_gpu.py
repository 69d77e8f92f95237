"""A real GPU in simulation: kernels of chosen lengths behind a host that an observer slows down."""

from __future__ import annotations

from typing import Any

from gpututor.checks.model import Call, Machine, Run, Span
from gpututor.hardware.scenario import Scenario
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind

REAL_GPU = Machine(Scenario("one GPU", 1, ("cuda",)), "cuda:0", False, "NVIDIA H200", 140 << 30)
BEFORE_NS = 4_000_000
"""Moment on the trace's clock at which the call begins: other calls came before."""


class SimulatedGpu:
    """A stream and its host, with the trace that an observer would write. All times are nanoseconds.

    `host_ns` is the host's time for a launch: half of it before the kernel is launched, half after it.
    """

    def __init__(self, host_ns: int) -> None:
        self.host_ns = host_ns
        self.now = BEFORE_NS
        self.free = 0
        self.trace = Trace()

    def launch(self, name: str, work_ns: int, **facts: Any) -> None:
        self._work(Kind.KERNEL, name, work_ns, facts)

    def copy(self, source: str, target: str, work_ns: int) -> None:
        """Copy; the host waits for a copy to it."""
        launched = self._work(Kind.TRANSFER, "aten::_to_copy", work_ns, {"source": source, "target": target})
        if target == "cpu":
            self._wait(launched, "aten::_to_copy")

    def synchronize(self) -> None:
        self._wait(self.now, "torch.cuda.synchronize")

    def clock_s(self) -> float:
        """Return the host's clock, as the learner reads it."""
        return self.now / 1e9

    def event_s(self) -> float:
        """Return the device's clock when it reaches an event that is recorded now."""
        return max(self.now, self.free) / 1e9

    def run_of(self, output: Any, drawn: dict[str, Any], source: str = "") -> Run:
        """Return the run of one call that returned `output` now."""
        span = Span(BEFORE_NS, self.now, max(self.now, self.free))
        return Run(REAL_GPU, (Call(drawn, {}, output, self.trace, span=span),), source, "work")

    def _work(self, kind: Kind, name: str, work_ns: int, facts: dict[str, Any]) -> int:
        self.now += self.host_ns // 2
        launched = self.now
        start = max(launched, self.free)
        self.free = start + work_ns
        self.trace.add(kind, name, "cuda:0", launched=launched, start=start, end=self.free, **facts)
        self.now += self.host_ns - self.host_ns // 2
        return launched

    def _wait(self, began: int, name: str) -> None:
        self.now = max(self.now, self.free) + 2_000
        self.trace.add(Kind.SYNCHRONISE, name, "cuda:0", launched=began, start=began, end=self.now)
        self.now += self.host_ns // 4  # the observer reads its events
