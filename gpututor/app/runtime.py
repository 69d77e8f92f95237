"""Runtime of the app: threads, log file, pauses of the garbage collector, style sheets."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from textual.css.stylesheet import Stylesheet

from gpututor.paths import log_file

START_AFTER_S = 2.0
"""Seconds until everything that is mounted after the first paint is ready."""
CHECK_EVERY_S = 0.25
QUIET_S = 0.15
"""Seconds without a key before a collection of young objects, which mostly takes less than 10 ms."""
LONG_QUIET_S = 20.0
"""Seconds without a key before a full collection: a closed page leaves 50,000 objects, 100 ms of work."""
_YOUNG, _MIDDLE, _OLD = 1000, 8, 10_000
"""Thresholds of Python's own collections. They start a full one only after an hour of keys without a pause."""


def in_thread(work: Callable[..., object], *arguments: object) -> None:
    """Call `work` in a daemon thread, for which the app does not wait at exit."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


class GcScheduler:
    """Collects garbage while the learner reads, and leaves out objects that will stay."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_input = clock()
        self._started = False
        self._is_all_collected = True
        """True if no key has come since the last full collection."""

    def start(self) -> None:
        """Freeze all objects that exist now; collections then cost a tenth."""
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
        gc.enable()
        self._started = True

    def note_input(self) -> None:
        self._last_input = self._clock()
        self._is_all_collected = False

    def collect_if_idle(self) -> int | None:
        """Collect if no key came lately and there may be garbage; return the oldest generation collected."""
        quiet_s = self._clock() - self._last_input
        if not self._started or quiet_s < QUIET_S:
            return None
        if quiet_s >= LONG_QUIET_S and not self._is_all_collected:
            self._is_all_collected = True
            gc.collect()
            return 2
        youngest, middle, _ = gc.get_count()
        if not middle and youngest < _YOUNG // 2:
            return None
        gc.collect(1)
        return 1


def write_log(error: BaseException) -> None:
    """Append `error` with its traceback to the log, if the log can be written."""
    import contextlib
    import traceback

    lines = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):  # the disk may be full; the message on the terminal has the error
        path = log_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{lines}\n")


FIRST = ("panes", "course", "results", "themes")
"""Style sheets for the widgets of the first paint. Of equal rules the later one applies."""
LATER = (
    "search", "dialogs", "checks", "reader", "editor", "welcome", "settings", "around", "device", "figures", "history",
)  # fmt: skip
"""Style sheets for widgets that are mounted after the first paint; they take 17 ms to read."""
CLASSROOM = "classroom"
"""The style sheet of the instructor's screens."""


def path_of(name: str) -> Path:
    return Path(__file__).with_name("styles") / f"{name}.tcss"


def read_later(sheet: Stylesheet) -> None:
    if not sheet.has_source(str(path_of(LATER[0]))):
        sheet.read_all([path_of(name) for name in LATER])
        sheet.parse()
