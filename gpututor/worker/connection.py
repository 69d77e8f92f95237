"""The worker's connection to the judge. An answer repeats its request's ticket, and stays within the agreed sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

from gpututor.protocol.frames import Frame, FrameError, check_parts, encoded, read_frame, write_encoded
from gpututor.protocol.messages import TICKET, Failure, Sizes

_TOO_MUCH = "the result has too many parts, or too much text, to be sent to the grader"


def failed(failure: Failure) -> dict[str, Any]:
    """Return the answer to a request whose submission failed."""
    return {"event": "failed", "failure": asdict(failure)}


class Connection:
    """Requests of the judge, and the answers to them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ticket: Any = None
        self.sizes = Sizes()
        self.changes: Callable[[], dict[str, Any]] | None = None
        """Returns fields about replaced code and work between calls; None if there is no observer."""

    def next(self) -> Frame:
        """Return the next request. Raises `EndOfFrames` if there is none."""
        frame = read_frame(self._stream)
        self._ticket = frame.header.pop(TICKET, None)
        return frame

    def answer(self, header: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send the answer. No code of the submission may run after the header is made, because it could rewrite it."""
        own: dict[str, Any] = {TICKET: self._ticket}
        if self.changes is not None:
            own |= self.changes()
        text = encoded({**header, **own}, buffers)
        if not self._fits(text):
            failure = Failure("refused", "", _TOO_MUCH, None, "")
            text, buffers = encoded({**failed(failure), **own}), ()
        write_encoded(self._stream, text, buffers)

    def _fits(self, text: bytes) -> bool:
        bounds = self.sizes.bounds
        with contextlib.suppress(FrameError):
            check_parts(text, bounds.parts)
            return len(text) <= bounds.header_bytes
        return False
