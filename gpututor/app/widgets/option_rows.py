"""Lists of options."""

from __future__ import annotations

import contextlib
from typing import Literal

from textual.widgets import OptionList


class OptionRows(OptionList):
    """Textual's, for keys that arrive before it is laid out."""

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        with contextlib.suppress(KeyError, IndexError):  # where no line is known there is no page to turn
            super()._move_page(direction)
