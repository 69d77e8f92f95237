"""Esc without a wait that can be felt."""

from __future__ import annotations

import selectors
import sys
from types import SimpleNamespace

LOOK_EVERY_S = 0.02
"""100 ms in Textual, which notices only at its next look that nothing came behind an Esc, and so that it was one."""


class QuickSelector(selectors.SelectSelector):
    """Waits for input for a short time only."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(LOOK_EVERY_S if timeout is None else min(timeout, LOOK_EVERY_S))


def notice_escape_sooner() -> None:
    """Let Textual's driver look for keys more often. The driver offers no way to ask for it."""
    if sys.platform == "win32":
        return
    from textual.drivers import linux_driver

    names = SimpleNamespace(SelectSelector=QuickSelector, EVENT_READ=selectors.EVENT_READ)
    vars(linux_driver)["selectors"] = names
