"""Between two calls the submission stands still: what could run its code then is taken off, and what runs is noticed.

The recorder writes down what happens inside a call. A function that Python runs at every event, a collection, a flush
of a stream or a thread could work outside of it, with inputs that are known already or a result that is still here.
"""

from __future__ import annotations

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
from gpututor.worker.submission import MODULE_NAME

MOST_LINES = 20
_monitoring: Any = getattr(sys, "monitoring", None)
"""Of Python 3.12 and later."""
_TOOLS = range(6)
getsignal: Any = sys.modules["_signal"].getsignal  # `signal.getsignal` makes enums: 180 µs for all signals
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_SIGNALS = tuple(map(int, signal.valid_signals()))


class Between:
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
