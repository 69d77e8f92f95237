"""Guards in a worker: stop the submission's code between calls, and detect replaced code and observers.

The recorder records only what happens inside a call. Code of the submission could also work between calls: in a trace
function, a garbage collection, a stream's flush or a thread. It would have the last inputs and results.
"""

from __future__ import annotations

import functools
import gc
import signal
import sys
import threading
from pathlib import Path
from signal import setitimer
from sys import getprofile, gettrace, setprofile, settrace
from types import FrameType
from typing import Any

from gpututor.devices.recorder import Recorder
from gpututor.worker.connection import Connection
from gpututor.worker.integrity import MOST_NAMED, Snapshot, snapshot_code, snapshot_machine
from gpututor.worker.machine import EnteredMachine

MODULE_NAME = "submission"
"""Name of the submission's module in `sys.modules`."""
MOST_LINES = 20
_monitoring: Any = getattr(sys, "monitoring", None)
"""Python 3.12 and later only."""
_TOOLS = range(6)
getsignal: Any = sys.modules["_signal"].getsignal  # `signal.getsignal` makes enums: 180 µs for all signals
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_SIGNALS = tuple(map(int, signal.valid_signals()))


class CallGuard:
    """Guard of one scenario: stops the submission's code after each call. Made before the file is loaded."""

    def __init__(self, recorder: Recorder, path: Path) -> None:
        self.hooks: dict[str, None] = {}
        """Names of Python hooks that the submission left on."""
        self.lines: dict[int, None] = {}
        """Lines of its file at which a device was used between calls; 0 for a thread without a known line."""
        self._file = str(path)
        self._thread = threading.get_ident()
        self._callbacks = list(gc.callbacks)
        self._tools = _tools()
        self._handlers = _handlers()
        self._submission_handlers: dict[int, Any] = {}
        """The submission's signal handlers, active only while it runs."""
        self._is_suspended = False
        self._gc_enabled = True
        gc.enable()
        recorder.unseen = self._on_unrecorded_work

    def resume(self) -> None:
        """Let the submission run, with its own setting of the garbage collector."""
        self._is_suspended = False
        for number, handler in self._submission_handlers.items():
            signal.signal(number, handler)
        self._submission_handlers.clear()
        if self._gc_enabled:
            gc.enable()

    def suspend(self, tracer: object = None) -> None:
        """Stop the submission as soon as its code has returned. `tracer` is the worker's own trace function.

        The garbage collector is off. Otherwise finalizers and callbacks would run at any point, and unrecorded frees of
        memory would look like hidden work.
        """
        if getprofile() is not None:
            setprofile(None)
            self.hooks["sys.setprofile"] = None
        if (current := gettrace()) is not None:
            settrace(None)
            if current is not tracer:
                self.hooks["sys.settrace"] = None
        self._gc_enabled = gc.isenabled()
        gc.disable()
        self._is_suspended = True
        for name in ("profile", "trace"):
            if getattr(threading, f"get{name}")() is not None:
                getattr(threading, f"set{name}")(None)
                self.hooks[f"threading.set{name}"] = None
        if [*map(id, gc.callbacks)] != [*map(id, self._callbacks)]:
            gc.callbacks[:] = self._callbacks
            self.hooks["gc.callbacks"] = None
        if self._tools and (tools := _tools()) != self._tools:
            for tool in _TOOLS:
                if tools[tool] != self._tools[tool]:
                    _monitoring.set_events(tool, 0)
            self.hooks["sys.monitoring"] = None
        self._switch_off_signals()

    def _switch_off_signals(self) -> None:
        """Switch timers off, and restore the handlers from before the file was loaded."""
        for timer in _TIMERS:
            if any(setitimer(timer, 0)):
                self.hooks["signal.setitimer"] = None
        current = _handlers()
        if current == self._handlers or threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._handlers.items():
            own = current.get(number, handler)
            if own is not handler and not _is_of_torch(own):
                self._submission_handlers[number] = own
                signal.signal(number, handler)
                self.hooks["signal.signal"] = None

    def _on_unrecorded_work(self, device: str) -> None:
        """Note work of a device that is not recorded."""
        if not self._is_suspended or device == "cpu" or len(self.lines) >= MOST_LINES:
            return
        line = self._line(sys._getframe(1))
        if line is not None:
            self.lines[line] = None
        elif threading.get_ident() != self._thread:
            self.lines[0] = None

    def _line(self, frame: FrameType | None) -> int | None:
        """Return the line of the submission's nearest frame; 0 for code that it made from a text."""
        names = getattr(sys.modules.get(MODULE_NAME), "__dict__", None)
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                return frame.f_lineno
            if frame.f_globals is names:
                return 0
            frame = frame.f_back
        return None


def _handlers() -> dict[int, Any]:
    """Return the handlers of signals, without those that Python did not set."""
    handlers = {number: getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in handlers.items() if handler is not None}


def _is_of_torch(handler: Any) -> bool:
    """Return True for the handler with which a data loader notices the end of its workers."""
    loaders = sys.modules.get("torch.utils.data._utils.signal_handling")
    return loaders is not None and getattr(handler, "__globals__", None) is vars(loaders)


def _tools() -> list[str | None]:
    return [] if _monitoring is None else [_monitoring.get_tool(tool) for tool in _TOOLS]


@functools.cache
def code_of_worker() -> Snapshot:
    """Return the snapshot for the whole life of the worker, made before any submission."""
    return snapshot_code()


@functools.cache
def code_of_machine(*, virtual: bool, cuda: bool = True) -> Snapshot:
    """Return the snapshot of a kind of machine, with or without CUDA: made in the first one, and renewed in others."""
    return snapshot_machine(_patched_names() if virtual else [])


class TamperGuard:
    """Guard of one scenario: detects replaced code and objects. Made before the submission is loaded."""

    def __init__(self, machine: EnteredMachine, connection: Connection | None = None) -> None:
        self._recorder, self._trace = machine.recorder, machine.recorder.trace
        virtual = machine.virtual
        code = code_of_machine(virtual=virtual is not None, cuda=virtual is None or "cuda" in virtual.backends)
        # Each observation of real devices has functions of its own; each virtual machine only fills tables anew.
        self._snapshots = (code_of_worker(), code.renewed(tables_only=virtual is not None))
        self._pinned = _pin_objects(machine)
        self._pinned += [_Pinned("the connection", connection, "_stream", "sizes")] if connection is not None else []
        self._switched_off = self._recorder.switched_off
        self._changed: dict[str, None] = {}
        self._machine = machine.virtual

    def call_begins(self) -> None:
        """Note the recorder, right before a call of the learner's function: a profile may have used it until then."""
        self._switched_off = self._recorder.switched_off

    def check_recorder(self, limit: int) -> None:
        """Check the recorder, while it is on, right after a call of the learner's function."""
        off = self._recorder.switched_off
        # A real device's recorder is off while the observer itself uses the device.
        if self._recorder.enabled is not True or (self._machine is not None and off != self._switched_off):
            self._changed["recorder.enabled"] = None
        if self._recorder.trace is not self._trace:
            self._changed["recorder.trace"] = None
        if self._trace.limit != limit:
            self._changed["recorder.trace.limit"] = None

    def changed(self) -> list[str]:
        """Return the names of everything replaced so far, except what was restored before a check."""
        for snapshot in self._snapshots:
            self._changed |= dict.fromkeys(snapshot.changed())
        self._changed |= {words: None for pinned in self._pinned for words in pinned.changed()}
        if sys.gettrace() is not None:
            self._changed["sys.settrace"] = None
        if self._machine is not None and not _is_active(self._machine):
            self._changed["the virtual GPU"] = None
        return list(self._changed)[:MOST_NAMED]


class _Pinned:
    """An object whose class, methods and some attributes must stay the same."""

    def __init__(self, words: str, pinned: object, *attributes: str) -> None:
        self._words, self._object, self._class = words, pinned, type(pinned)
        self._attributes = tuple((name, getattr(pinned, name)) for name in attributes)

    def changed(self) -> list[str]:
        names = [] if type(self._object) is self._class else [self._words]
        methods = _method_names(self._class)  # type: ignore[arg-type]
        hidden = methods.intersection(getattr(self._object, "__dict__", ()))
        names += [f"{self._words}.{name}" for name in sorted(hidden)]
        for name, value in self._attributes:
            if getattr(self._object, name, None) is not value:
                names.append(f"{self._words}.{name}")
        return names


@functools.cache
def _method_names(cls: type) -> frozenset[str]:
    return frozenset(name for name in dir(cls) if callable(getattr(cls, name, None)))


def _pin_objects(machine: EnteredMachine) -> list[_Pinned]:
    recorder = machine.recorder
    pinned = [
        _Pinned("recorder", recorder, "trace", "finish", "place", "unseen"),
        _Pinned("recorder.trace", recorder.trace, "names", "devices", "files"),
        _Pinned("the gauge", machine.meter),
    ]
    virtual = machine.virtual
    if virtual is None:
        return pinned
    pinned += [
        _Pinned("the machine", virtual, "gpus", "clock", "recorder", "per_thread", "backends", "values"),
        _Pinned("the clock", virtual.clock, "host", "gpus", "order"),
        _Pinned("the host's clock", virtual.clock.host),
    ]
    for gpu, timeline in zip(virtual.gpus, virtual.clock.gpus, strict=True):
        pinned += [
            _Pinned(gpu.name, gpu, "memory", "spec", "launch_ns", "view_ns", "device"),
            _Pinned(f"the memory of {gpu.name}", gpu.memory, "watch", "statistics", "total"),
            _Pinned(f"the timeline of {gpu.name}", timeline, "played", "peers", "index"),
            _Pinned(f"the figures of {gpu.name}", gpu.spec, *gpu.spec._fields),
        ]
    return pinned


def _patched_names() -> list[tuple[object, str]]:
    """Return the names that the virtual GPU patches."""
    from gpututor.devices.virtual.patches import CUDA_BUILD, PATCHES, TIME

    return [(patch.owner_object(), patch.name) for patch in (*PATCHES, *CUDA_BUILD, *TIME)]


def _is_active(machine: Any) -> bool:
    from gpututor.devices.virtual.clock.python_time import virtual_host
    from gpututor.devices.virtual.machine import active_machine, is_on

    return is_on() and active_machine() is machine and virtual_host() is machine.clock.host
