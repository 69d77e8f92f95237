"""Sessions of the profiler: rows, spans and names of device work.

Torch's profiler is on for the CPU alone. It sees the operators and their nesting, but with meaningless times. So each
operator runs inside a marker, a range in torch's profile whose name contains the number of a `ProfileSpan`. The
machine's launches belong to the marker that is open in their thread. Afterwards `tree` combines both.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import torch_private
from gpututor.devices.virtual.cost import links
from gpututor.devices.virtual.machine import VirtualMachine
from gpututor.devices.virtual.operator_registry import operator_of
from gpututor.devices.virtual.operators.dispatch import DeviceMode
from gpututor.devices.virtual.profiler import nccl
from gpututor.hardware.gpus import GpuSpec
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind

MARKER = "gpututor:"
"""The prefix of markers' names, which users never see."""

_COPIES = ("aten::copy_", "aten::clone")


@dataclass(slots=True)
class ProfileRow:
    """An event of the trace. Times are nanoseconds on the machine's clock. `stream` and after: as in `Trace.add`."""

    kind: Kind
    name: str
    device: str
    recorded: int
    """The host's time when it was recorded: before the host paid for the launch."""
    stream: int = 0
    source: str = ""
    target: str = ""
    size_bytes: int = 0
    flops: float = 0.0
    dtype: str = ""
    asynchronous: bool = False
    launched: int = -1
    start: int = -1
    end: int = -1
    allocated: int = 0
    partner: int = -1
    file: str = ""
    line: int | None = None


@dataclass(slots=True)
class ProfileSpan:
    """The operator, range or other event that a marker represents."""

    what: str
    """`operator`, `range` or `event`."""
    name: str
    begin: int
    end: int = -1
    is_view: bool = False
    copies_plainly: bool = False
    """True for an operator that CUDA implements by a plain copy on the device, without a kernel."""
    kernel: str = ""
    """The name of its kernel on CUDA, for collectives."""
    rows: list[ProfileRow] = field(default_factory=list)
    mark: Any = None


def is_plain_copy(name: str, args: Any) -> bool:
    """Return True if CUDA runs this operator by `cudaMemcpyAsync` (aten/src/ATen/native/cuda/Copy.cu)."""
    if name not in _COPIES:
        return False
    tensors = [tensor for tensor in args[:2] if isinstance(tensor, torch.Tensor)]
    first = tensors[0]
    return all(
        tensor.layout is torch.strided
        and tensor.is_contiguous()
        and (tensor.dtype, tensor.device) == (first.dtype, first.device)
        for tensor in tensors
    )


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.open: list[ProfileSpan] = []


class _Tap(Trace):
    """A trace that also passes each event to a session."""

    __slots__ = ("_session",)

    def __init__(self, trace: Trace, session: Session) -> None:
        # Shares the attributes of the trace, so events are added to the trace itself.
        self.__dict__ = trace.__dict__
        self._session = session

    def add(self, kind: Kind, name: str, device: str, *facts: Any, **details: Any) -> int:
        index = super().add(kind, name, device, *facts, **details)
        if index < 0:
            index = self._session.number_beyond_limit()
        row = ProfileRow(kind, name, device, self._session.machine.clock.host.now, *facts, **details)
        self._session.add(index, row)
        return index

    def set_times(self, index: int, start: int, end: int) -> None:
        if self.limit is None or index < self.limit:
            super().set_times(index, start, end)
        self._session.set_times(index, start, end)


class Session:
    """The recording of a profile, from `start` to `stop`."""

    def __init__(self, machine: VirtualMachine, profile: Any) -> None:
        self.machine = machine
        self.profile = profile
        """Torch's own profile, to which this session belongs."""
        self.spans: list[ProfileSpan] = []
        self.frees: list[ProfileRow] = []
        self.loose: list[ProfileRow] = []
        """Launches in threads that torch's profiler does not record."""
        self.begin = self.end = machine.clock.host.now
        self._thread = threading.get_ident()
        self._here = _OfThread()
        self._rows: dict[int, ProfileRow] = {}
        self._beyond = count(machine.recorder.trace.limit or 0)
        self._lock = threading.Lock()
        self._before: tuple[Trace, bool] | None = None

    @property
    def is_running(self) -> bool:
        return self._before is not None

    def start(self) -> None:
        """Observe the machine's recorder, and switch it on if it was off."""
        if _Current.session is not None:
            _Current.session.stop()  # as in torch, a new profile gets all later events
        for gpu in self.machine.gpus:
            gpu.memory.settle()  # memory that was freed earlier must not count as freed in the profile
        recorder = self.machine.recorder
        self._before = recorder.trace, recorder.enabled
        recorder.trace = _Tap(recorder.trace if recorder.enabled else Trace(None), self)
        recorder.enabled = True
        # Shadows the method in this thread only, the thread that torch's profiler watches.
        vars(self.machine.clock.host)["sleep"] = self._slept
        _Current.session = self
        DeviceMode.__torch_dispatch__ = _observed  # type: ignore[method-assign]

    def stop(self) -> None:
        """Finish all times, and restore the recorder."""
        if self._before is None:
            return
        recorder: Recorder = self.machine.recorder
        try:
            self.machine.finish()
        finally:
            self.end = self.machine.clock.host.now
            recorder.trace, recorder.enabled = self._before
            for row in self._rows.values():
                if row.start < 0:
                    row.start = row.end = row.launched  # when it ran is not known
            self._before = None
            self._rows.clear()
            vars(self.machine.clock.host).pop("sleep", None)
            _Current.session = None
            DeviceMode.__torch_dispatch__ = _plain  # type: ignore[method-assign]

    def open(self, what: str, name: str) -> ProfileSpan:
        """Begin a marker in this thread."""
        span = ProfileSpan(what, name, self.machine.clock.host.now)
        with self._lock:
            number = len(self.spans)
            self.spans.append(span)
        self._here.open.append(span)
        span.mark = torch_private.ProfilerRange(MARKER + str(number))
        span.mark.__enter__()
        return span

    def close(self, span: ProfileSpan) -> None:
        span.end = self.machine.clock.host.now
        span.mark.__exit__(None, None, None)
        span.mark = None
        if span in self._here.open:
            self._here.open.remove(span)

    def number_beyond_limit(self) -> int:
        """Return a number for an event beyond the trace's limit: the profile still needs its times."""
        return next(self._beyond)

    def _slept(self, nanoseconds: int) -> None:
        """Stand in for `HostClocks.sleep`, and let the current range or step of a backward pass include the sleep."""
        host = self.machine.clock.host
        if not self.is_running or (self._here.open and self._here.open[-1].what == "operator"):
            type(host).sleep(host, nanoseconds)
            return
        span = self.open("event", "sleep")
        type(host).sleep(host, nanoseconds)
        self.close(span)

    def add(self, index: int, row: ProfileRow) -> None:
        """Add an event of the trace; a negative `index` gets no times later."""
        kind = row.kind
        if index >= 0:
            self._rows[index] = row
        if row.launched < 0:
            row.launched = row.recorded
        if kind is Kind.FREE:
            # Recorded late, possibly during another operator.
            self.frees.append(row)
            return
        if kind is Kind.HAZARD or kind is Kind.RANGE:
            return
        if threading.get_ident() != self._thread:
            self.loose.append(row)
            return
        for span in reversed(self._here.open):
            if span.what == "operator":
                span.rows.append(row)
                return
        span = self.open("event", row.name)
        span.rows.append(row)
        self.close(span)
        if row.launched >= 0:
            span.begin, span.end = min(row.launched, span.begin), max(row.launched, row.end, span.begin)

    def set_times(self, index: int, start: int, end: int) -> None:
        row = self._rows.get(index)
        if row is not None:
            row.start, row.end = start, end


class _Current:
    session: Session | None = None


def current() -> Session | None:
    return _Current.session


_plain = DeviceMode.__torch_dispatch__


def _observed(self: DeviceMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Stand in for the dispatch of every operator while a session runs."""
    session = _Current.session
    if session is None or type(types) is list:
        return _plain(self, func, types, args, kwargs)
    op = operator_of(func)
    span = session.open("operator", op.name)
    span.is_view = op.is_view
    span.copies_plainly = is_plain_copy(op.name, args)
    span.kernel = nccl.kernel_name(op.name, args)
    try:
        return _plain(self, func, types, args, kwargs)
    finally:
        session.close(span)


DEFAULT_STREAM = 7
"""CUPTI's number of the default stream; other streams have higher numbers."""
GRAPH_LAUNCH = "cudaGraphLaunch"


def device_work_name(row: ProfileRow, span: ProfileSpan | None, spec: GpuSpec) -> str:
    """Return the name of a kernel or copy on the device. A kernel's name is its operator's."""
    if row.kind is Kind.TRANSFER:
        if row.source != "cpu" and row.target != "cpu":
            return "Memcpy PtoP (Device -> Device)"
        host = "Pinned" if _is_pinned(row, spec) else "Pageable"
        return f"Memcpy HtoD ({host} -> Device)" if row.source == "cpu" else f"Memcpy DtoH (Device -> {host})"
    if span is not None and span.copies_plainly and row.name == span.name:
        return "Memcpy DtoD (Device -> Device)"
    if span is not None and span.kernel and row.name == span.name:
        return span.kernel
    return "virtual::" + row.name.rsplit("::", 1)[-1].rsplit(".", 1)[-1]


def _is_pinned(row: ProfileRow, spec: GpuSpec) -> bool:
    """Return True if the host's memory is page-locked: the host did not wait, or the copy is fast."""
    if row.asynchronous:
        return True
    way: links.Direction = "h2d" if row.source == "cpu" else "d2h"
    fast, slow = (
        round(links.copy_s(spec, row.size_bytes, pinned=pinned, direction=way) * 1e9) for pinned in (True, False)
    )
    return fast != slow and row.end - row.start == fast


def is_copy(name: str) -> bool:
    return name.startswith("Memcpy")


def runtime_call_name(row: ProfileRow, name: str) -> str:
    """Return the CUDA runtime call that started, or waited for, device work called `name`."""
    if row.kind is Kind.SYNCHRONISE:
        if row.name in ("torch.cuda.synchronize", "torch.accelerator.synchronize"):
            return "cudaDeviceSynchronize"
        return "cudaEventSynchronize" if "Event" in row.name else "cudaStreamSynchronize"
    if is_copy(name):
        return "cudaMemcpyPeerAsync" if "PtoP" in name else "cudaMemcpyAsync"
    return "cudaLaunchKernel"


def stream_number(stream: int) -> int:
    return DEFAULT_STREAM + stream
