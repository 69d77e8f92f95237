"""Warnings of torch name the line that called torch, not the line here that passed the call on."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import torch

_OURS = str(Path(__file__).parents[1])
_PASSED_OVER = (_OURS, str(Path(torch.__file__).parent), warnings.__file__)
# What C++ and `warnings.warn` call to show a warning that no filter stopped.
_real_show: Any = warnings._showwarnmsg  # type: ignore[attr-defined]


def nearest_outside() -> FrameType | None:
    """The nearest frame outside of this package and torch."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED_OVER):
        frame = frame.f_back
    return frame


def show_warning(message: Any) -> None:
    """Stands in for `warnings._showwarnmsg`: a line of this package becomes the nearest line outside it and torch."""
    if message.filename.startswith(_OURS):
        frame = nearest_outside()
        if frame is not None:
            message.filename, message.lineno = frame.f_code.co_filename, frame.f_lineno
    _real_show(message)
