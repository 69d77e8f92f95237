"""The worker's end of the conversation: each answer repeats the ticket of its question, and keeps to its sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from gpututor.protocol.frames import Frame, FrameError, check_parts, encoded, read_frame, write_encoded
from gpututor.protocol.messages import TICKET, Failure, Sizes

_TOO_MUCH = "the result has too many parts, or too much text, to be brought back"


class Connection:
    """Questions of the judge, and the answers to them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ticket: Any = None
        self.sizes = Sizes()
        """What the judge takes."""
        self.noticed: Callable[[], dict[str, Any]] | None = None
        """What the judge is told of replaced code, and of work between calls, once somebody can tell."""

    def next(self) -> Frame:
        """The next question. Raises `EndOfFrames` when there is none any more."""
        frame = read_frame(self._stream)
        self._ticket = frame.header.pop(TICKET, None)
        return frame

    def answer(self, header: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Answer it. Nothing of the submission's runs from when there is a header: it could be rewritten."""
        own: dict[str, Any] = {TICKET: self._ticket}
        if self.noticed is not None:
            own |= self.noticed()
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
