"""Frames: one JSON header and raw buffers, with bounds on every size. The only thing that crosses a process border.

Layout: magic (4 bytes) · header length (u32) · header (UTF-8 JSON object, whose `buffers` lists byte counts) · buffers.
All numbers are big-endian. Nothing in a frame is ever executed or unpickled.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MAGIC = b"GPT1"
_PREFIX = struct.Struct(">4sI")


class Source(Protocol):
    """What frames are read from: a file, or something like one."""

    def read(self, size: int, /) -> bytes: ...


class Sink(Protocol):
    """What frames are written to."""

    def write(self, content: bytes | memoryview, /) -> object: ...

    def flush(self) -> object: ...


class FrameError(Exception):
    """Bytes that are not a frame, or a frame over its bounds."""


class EndOfFrames(FrameError):
    """The other side closed between two frames."""


@dataclass(frozen=True)
class Bounds:
    """The most that a reader takes."""

    header_bytes: int = 64 << 20
    buffers: int = 4096
    buffer_bytes: int = 1 << 30
    total_bytes: int = 2 << 30


@dataclass(frozen=True)
class Frame:
    """What was read: the header without its `buffers`, and the buffers."""

    header: dict[str, Any]
    buffers: tuple[bytes, ...] = ()


def write_frame(stream: Sink, header: dict[str, Any], buffers: Sequence[bytes | memoryview] = ()) -> None:
    """Write one frame and flush. `header` must be JSON without `buffers`; non-finite numbers are refused."""
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    text = json.dumps({**header, "buffers": sizes}, allow_nan=False, separators=(",", ":")).encode()
    stream.write(_PREFIX.pack(MAGIC, len(text)))
    stream.write(text)
    for buffer in buffers:
        stream.write(buffer)
    stream.flush()


def read_frame(stream: Source, bounds: Bounds | None = None) -> Frame:
    """Read one frame.

    Raises `EndOfFrames` when the stream ends before a frame begins, `FrameError` for anything malformed,
    truncated or over `bounds`. Never reads past the frame's end, and never allocates what was only announced.
    """
    bounds = bounds or Bounds()
    prefix = _read_exactly(stream, _PREFIX.size, at_start=True)
    magic, header_bytes = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise FrameError("this is not a frame")
    if header_bytes > bounds.header_bytes:
        raise FrameError(f"a header of {header_bytes} bytes is over the bound")
    header = _parse(_read_exactly(stream, header_bytes))
    sizes = header.pop("buffers", None)
    if not isinstance(sizes, list) or len(sizes) > bounds.buffers:
        raise FrameError("the header's `buffers` is missing or too long")
    for size in sizes:
        if type(size) is not int or not 0 <= size <= bounds.buffer_bytes:
            raise FrameError(f"a buffer of {size!r} bytes is out of bounds")
    if sum(sizes) > bounds.total_bytes:
        raise FrameError("the buffers together are over the bound")
    return Frame(header, tuple(_read_exactly(stream, size) for size in sizes))


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise FrameError("the header is not an object")
    return header


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def _read_exactly(stream: Source, size: int, *, at_start: bool = False) -> bytes:
    pieces: list[bytes] = []
    missing = size
    while missing:
        piece = stream.read(min(missing, 1 << 20))
        if not piece:
            if at_start and missing == size:
                raise EndOfFrames("the other side closed")
            raise FrameError(f"the stream ended {missing} bytes early")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
