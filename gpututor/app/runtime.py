"""Runtime of the app: log file, pauses of the garbage collector, style sheets."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from textual.css.stylesheet import Stylesheet

from gpututor.paths import log_file

START_AFTER_S = 2.0
"""When what comes after the first paint is there."""
LOOK_EVERY_S = 0.25
QUIET_S = 0.15
"""How long no key may have come before what is new is looked at: mostly less than 10 ms of work."""
LONG_QUIET_S = 20.0
"""How long no key may have come before all is looked at: a page that was left is 50,000 objects, 100 ms of work."""
_YOUNG, _MIDDLE, _OLD = 1000, 8, 10_000
"""When Python looks by itself: at what came since the step began, soon; at all, only if keys come for an hour."""


class GcScheduler:
    """Lets Python look for garbage when the learner reads, and not at what will stay."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_input = clock()
        self._started = False
        self._looked_at_all = True
        """Whether nothing happened since all was looked at."""

    def start(self) -> None:
        """Take all that is there now for something that stays; collections then cost a tenth."""
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
        gc.enable()
        self._started = True

    def input_came(self) -> None:
        self._last_input = self._clock()
        self._looked_at_all = False

    def look(self) -> int | None:
        """Collect when it is quiet and there may be something; the oldest generation that was looked at."""
        quiet_s = self._clock() - self._last_input
        if not self._started or quiet_s < QUIET_S:
            return None
        if quiet_s >= LONG_QUIET_S and not self._looked_at_all:
            self._looked_at_all = True
            gc.collect()
            return 2
        youngest, middle, _ = gc.get_count()
        if not middle and youngest < _YOUNG // 2:
            return None
        gc.collect(1)
        return 1


def write_log(error: BaseException) -> None:
    """Append `error` with its traceback to the log; a log that cannot be written is no reason to stop."""
    import contextlib
    import traceback

    lines = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):
        path = log_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{lines}\n")


FIRST = ("panes", "course", "reader", "search", "results", "dialogs", "themes")
"""What is on the screen at the first paint, or may come at once; of equal rules the later one holds."""
LATER = ("editor", "welcome", "settings", "around", "device", "figures", "history")
"""Of what comes after it: 12 ms of reading."""
CLASSROOM = "classroom"
"""Of the instructor's screens alone."""


def path_of(name: str) -> Path:
    return Path(__file__).with_name("styles") / f"{name}.tcss"


def read_later(sheet: Stylesheet) -> None:
    """Know all sheets. What is on the screen already needs none of these."""
    if not sheet.has_source(str(path_of(LATER[0]))):
        sheet.read_all([path_of(name) for name in LATER])
        sheet.parse()
