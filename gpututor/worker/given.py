"""An exercise's `given.py` in the worker: a fault in it is the author's, with the author's frames."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

GIVEN = "given.py"
"""The name under which its source is compiled."""


class GivenBroke(Exception):
    """The author's code broke. `fault` is `gpututor.protocol.messages.GivenFault` as JSON."""

    def __init__(self, fault: dict[str, Any]) -> None:
        super().__init__(fault["said"])
        self.fault = fault


@contextlib.contextmanager
def authors_code() -> Iterator[None]:
    """Run code of `given.py`. Raises `GivenBroke` for whatever it raises, `SystemExit` included."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = [
            [line, frame.f_code.co_name]
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == GIVEN
        ]
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise GivenBroke({"said": said[:2000], "frames": frames[-20:]}) from error
