"""Guards in a worker: protected code and observers, and a submission that stops between calls.

The recorder writes down what happens inside a call. A function that Python runs at every event, a collection, a flush
of a stream or a thread could work outside of it, with inputs that are known already or a result that is still here.
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
from gpututor.worker.integrity import MOST_NAMED, Snapshot, seal_of_machine, snapshot_code
from gpututor.worker.machine import EnteredMachine

MODULE_NAME = "submission"
"""The name in `sys.modules` of the submission's module."""
MOST_LINES = 20
_monitoring: Any = getattr(sys, "monitoring", None)
"""Of Python 3.12 and later."""
_TOOLS = range(6)
getsignal: Any = sys.modules["_signal"].getsignal  # `signal.getsignal` makes enums: 180 µs for all signals
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_SIGNALS = tuple(map(int, signal.valid_signals()))


class CallGuard:
    """One for a scenario. Begins before the file is loaded, with the submission running."""

    def __init__(self, recorder: Recorder, path: Path) -> None:
        self.hooks: dict[str, None] = {}
        """What of Python's that calls others the submission left on, by name."""
        self.lines: dict[int, None] = {}
        """Of its file, at which a device was used between calls; 0 where a thread did that shows no line."""
        self._file = str(path)
        self._thread = threading.get_ident()
        self._callbacks = list(gc.callbacks)
        self._tools = _tools()
        self._handlers = _handlers()
        self._theirs: dict[int, Any] = {}
        """The submission's own handlers, which hold only while it runs."""
        self._stands = False
        self._collects = True
        gc.enable()
        recorder.unseen = self._unseen

    def go(self) -> None:
        """From here on the submission runs, with garbage collected as it wants it."""
        self._stands = False
        for number, handler in self._theirs.items():
            signal.signal(number, handler)
        self._theirs.clear()
        if self._collects:
            gc.enable()

    def stand(self, tracer: object = None) -> None:
        """At once when its code has returned: nothing of it is to run from here on. `tracer` is our own trace function.

        Nothing is collected by itself: finalisers and callbacks would run in the middle of anything, and memory that
        is given back where nobody writes it down would look like work that was hidden.
        """
        if getprofile() is not None:
            setprofile(None)
            self.hooks["sys.setprofile"] = None
        if (found := gettrace()) is not None:
            settrace(None)
            if found is not tracer:
                self.hooks["sys.settrace"] = None
        self._collects = gc.isenabled()
        gc.disable()
        self._stands = True
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
        """Switch timers off, and give each signal the handler that it had before the file was loaded."""
        for timer in _TIMERS:
            if any(setitimer(timer, 0)):
                self.hooks["signal.setitimer"] = None
        if (now := _handlers()) != self._handlers and threading.current_thread() is threading.main_thread():
            for number, handler in self._handlers.items():
                if (current := now.get(number, handler)) is not handler and not _is_of_torch(current):
                    self._theirs[number] = current
                    signal.signal(number, handler)
                    self.hooks["signal.signal"] = None

    def _unseen(self, device: str) -> None:
        """A device works, and nothing is written down."""
        if not self._stands or device == "cpu" or len(self.lines) >= MOST_LINES:
            return
        line = self._line(sys._getframe(1))
        if line is not None:
            self.lines[line] = None
        elif threading.get_ident() != self._thread:
            self.lines[0] = None

    def _line(self, at: FrameType | None) -> int | None:
        """Of the submission's nearest frame; code that it made from a text has its names and no line."""
        names = getattr(sys.modules.get(MODULE_NAME), "__dict__", None)
        while at is not None:
            if at.f_code.co_filename == self._file:
                return at.f_lineno
            if at.f_globals is names:
                return 0
            at = at.f_back
        return None


def _handlers() -> dict[int, Any]:
    """Each signal's handler, apart from handlers that were not set by Python."""
    handlers = {number: getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in handlers.items() if handler is not None}


def _is_of_torch(handler: Any) -> bool:
    """Return True for the handler by which a data loader notices the end of its workers."""
    loaders = sys.modules.get("torch.utils.data._utils.signal_handling")
    return loaders is not None and getattr(handler, "__globals__", None) is vars(loaders)


def _tools() -> list[str | None]:
    return [] if _monitoring is None else [_monitoring.get_tool(tool) for tool in _TOOLS]


@functools.cache
def code_of_worker() -> Snapshot:
    """One for the worker's life: it is made before a submission is there, and holds over all its scenarios."""
    return snapshot_code()


@functools.cache
def code_of_machine(*, virtual: bool) -> Snapshot:
    """As a machine of that kind has it: made in the first one, and renewed in every later one."""
    return seal_of_machine(_replaced() if virtual else [])


class TamperGuard:
    """One scenario's seal, made in the machine before the submission is loaded."""

    def __init__(self, machine: EnteredMachine, line: Connection | None = None) -> None:
        """`line`: the worker's end of the conversation, where there is one."""
        self._recorder, self._trace = machine.recorder, machine.recorder.trace
        self._seals = (code_of_worker(), code_of_machine(virtual=machine.virtual is not None).renewed())
        self._held = _held(machine)
        self._held += [_Held("the line", line, "_stream", "sizes")] if line is not None else []
        self._switched_off = self._recorder.switched_off
        self._noticed: dict[str, None] = {}
        self._machine = machine.virtual

    def recorded(self, limit: int) -> None:
        """To be called where the recorder is on, when the call of the learner's function is over."""
        off = self._recorder.switched_off
        # A real device's recorder is off while the observer itself uses the device.
        if self._recorder.enabled is not True or (self._machine is not None and off != self._switched_off):
            self._noticed["recorder.enabled"] = None
        self._switched_off = off + 1  # the worker does so next
        if self._recorder.trace is not self._trace:
            self._noticed["recorder.trace"] = None
        if self._trace.limit != limit:
            self._noticed["recorder.trace.limit"] = None

    def changed(self) -> list[str]:
        """All that was replaced so far, by name; what was put back again before anybody looked is not known."""
        for seal in self._seals:
            self._noticed |= dict.fromkeys(seal.changed())
        self._noticed |= {words: None for held in self._held for words in held.changed()}
        if sys.gettrace() is not None:
            self._noticed["sys.settrace"] = None
        if self._machine is not None and not _is_active(self._machine):
            self._noticed["the virtual GPU"] = None
        return list(self._noticed)[:MOST_NAMED]


class _Held:
    """One object: its class, that nothing hides its methods, and that these attributes stay the same objects."""

    def __init__(self, words: str, held: object, *attributes: str) -> None:
        self._words, self._object, self._class = words, held, type(held)
        self._attributes = tuple((name, getattr(held, name)) for name in attributes)

    def changed(self) -> list[str]:
        found = [] if type(self._object) is self._class else [self._words]
        methods = _methods(self._class)  # type: ignore[arg-type]
        hidden = methods.intersection(getattr(self._object, "__dict__", ()))
        found += [f"{self._words}.{name}" for name in sorted(hidden)]
        for name, value in self._attributes:
            if getattr(self._object, name, None) is not value:
                found.append(f"{self._words}.{name}")
        return found


@functools.cache
def _methods(of: type) -> frozenset[str]:
    return frozenset(name for name in dir(of) if callable(getattr(of, name, None)))


def _held(machine: EnteredMachine) -> list[_Held]:
    recorder = machine.recorder
    found = [
        _Held("recorder", recorder, "trace", "finish", "place", "unseen"),
        _Held("recorder.trace", recorder.trace, "names", "devices", "files"),
        _Held("the gauge", machine.gauge),
    ]
    virtual = machine.virtual
    if virtual is None:
        return found
    found += [
        _Held("the machine", virtual, "gpus", "clock", "recorder", "per_thread", "backends", "values"),
        _Held("the clock", virtual.clock, "host", "gpus", "order"),
        _Held("the host's clock", virtual.clock.host),
    ]
    for gpu, timeline in zip(virtual.gpus, virtual.clock.gpus, strict=True):
        found += [
            _Held(gpu.name, gpu, "memory", "spec", "launch_ns", "view_ns", "device"),
            _Held(f"the memory of {gpu.name}", gpu.memory, "watch", "statistics", "total"),
            _Held(f"the timeline of {gpu.name}", timeline, "played", "peers", "index"),
            _Held(f"the figures of {gpu.name}", gpu.spec, *gpu.spec._fields),
        ]
    return found


def _replaced() -> list[tuple[object, str]]:
    """What the virtual GPU stands in for."""
    from gpututor.devices.virtual.patches import CUDA_BUILD, PATCHES, TIME

    return [(patch.owner_object(), patch.name) for patch in (*PATCHES, *CUDA_BUILD, *TIME)]


def _is_active(machine: Any) -> bool:
    from gpututor.devices.virtual.clock.python_time import virtual_host
    from gpututor.devices.virtual.machine import active_machine, is_on

    return is_on() and active_machine() is machine and virtual_host() is machine.clock.host
