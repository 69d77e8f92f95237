"""The worker's end of the conversation: each answer repeats the ticket of its question, and keeps to its sizes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from gpututor.wire.frames import Frame, FrameError, check_parts, encoded, read_frame, write_encoded
from gpututor.wire.messages import Failure
from gpututor.wire.sizes import TICKET, Sizes

_TOO_MUCH = "the result has too many parts, or too much text, to be brought back"


class Line:
    """Questions of the judge, and the answers to them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ticket: Any = None
        self.sizes = Sizes()
        """What the judge takes."""
        self.changed: Callable[[], list[str]] | None = None
        """Names what was replaced since the machine was entered, once somebody can tell."""

    def next(self) -> Frame:
        """The next question. Raises `EndOfFrames` when there is none any more."""
        frame = read_frame(self._stream)
        self._ticket = frame.header.pop(TICKET, None)
        return frame

    def answer(self, header: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Answer it, after all that was printed, so that the judge has the text when it has the frame."""
        for printed in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                printed.flush()
        own: dict[str, Any] = {TICKET: self._ticket}
        if self.changed is not None:
            own["changed"] = self.changed()
        text = encoded({**header, **own}, buffers)
        if not self._fits(text):
            failure = Failure("refused", "", _TOO_MUCH, None, "")
            text, buffers = encoded({"event": "failed", "failure": failure.to_json(), **own}), ()
        write_encoded(self._stream, text, buffers)

    def _fits(self, text: bytes) -> bool:
        bounds = self.sizes.bounds
        if len(text) > bounds.header_bytes:
            return False
        try:
            check_parts(text, bounds.parts)
        except FrameError:
            return False
        return True
