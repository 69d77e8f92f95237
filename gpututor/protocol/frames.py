"""Frames: a JSON header and raw buffers, with bounds on every size. Only frames cross a process boundary.

Layout: magic (4 bytes) · header length (u32) · header (UTF-8 JSON object, whose `buffers` lists byte counts) · buffers.
All numbers are big-endian. Nothing in a frame is ever executed or unpickled.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

MAGIC = b"GPT1"
_PREFIX = struct.Struct(">4sI")


class Source(Protocol):
    """A stream to read frames from."""

    def read(self, size: int, /) -> bytes: ...


class Sink(Protocol):
    """A stream to write frames to."""

    def write(self, content: bytes | memoryview, /) -> object: ...

    def flush(self) -> object: ...


class FrameError(Exception):
    """Bytes that are not a frame, or a frame over its bounds."""


class EndOfFrames(FrameError):
    """The other side closed between two frames."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a reader."""

    header_bytes: int = 64 << 20
    parts: int = 64 << 20
    """Brackets, braces and commas in the header: parsing time grows with their number."""
    buffers: int = 4096
    buffer_bytes: int = 1 << 30
    total_bytes: int = 2 << 30


@dataclass(frozen=True)
class Frame:
    """A header without its `buffers`, and the buffers."""

    header: dict[str, Any]
    buffers: tuple[bytes, ...] = ()


def write_frame(stream: Sink, header: dict[str, Any], buffers: Sequence[bytes | memoryview] = ()) -> None:
    """Write one frame and flush. Numbers that are not finite raise `ValueError`; half surrogate pairs become `?`."""
    write_encoded(stream, encoded(header, buffers), buffers)


def encoded(header: dict[str, Any], buffers: Sequence[bytes | memoryview] = ()) -> bytes:
    """Return the header as `write_frame` sends it."""
    whole = {**header, "buffers": [memoryview(buffer).nbytes for buffer in buffers]}
    text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
    if "\\ud" in text:
        text = json.dumps(whole, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def write_encoded(stream: Sink, text: bytes, buffers: Sequence[bytes | memoryview] = ()) -> None:
    """Write one frame with a header from `encoded` for the same buffers, and flush."""
    stream.write(_PREFIX.pack(MAGIC, len(text)))
    stream.write(text)
    for buffer in buffers:
        stream.write(buffer)
    stream.flush()


def read_frame(stream: Source, bounds: Bounds | None = None) -> Frame:
    """Read one frame.

    Raises `EndOfFrames` if the stream ends before a frame begins, `FrameError` for anything malformed, truncated or
    over `bounds`. Never reads past the frame's end, and never allocates announced bytes before they arrive.
    """
    bounds = bounds or Bounds()
    prefix = _read_exactly(stream, _PREFIX.size, at_start=True)
    magic, header_bytes = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise FrameError("this is not a frame")
    if header_bytes > bounds.header_bytes:
        raise FrameError(f"a header of {header_bytes} bytes is over the bound")
    header = _parse(_read_exactly(stream, header_bytes), bounds.parts)
    sizes = header.pop("buffers", None)
    if not isinstance(sizes, list) or len(sizes) > bounds.buffers:
        raise FrameError("the header's `buffers` is missing or too long")
    for size in sizes:
        if type(size) is not int or not 0 <= size <= bounds.buffer_bytes:
            raise FrameError(f"a buffer of {size!r} bytes is out of bounds")
    if sum(sizes) > bounds.total_bytes:
        raise FrameError("the buffers together are over the bound")
    return Frame(header, tuple(_read_exactly(stream, size) for size in sizes))


def check_parts(text: bytes, most: int) -> None:
    """Raise `FrameError` for a header with more than `most` brackets, braces and commas."""
    # 1 s/GB; parsing `[],[],…` takes 200 s/GB and forty times its memory.
    if sum(map(text.count, (b",", b"[", b"{"))) > most:
        raise FrameError(f"a header of more than {most} parts")


def _parse(text: bytes, parts: int) -> dict[str, Any]:
    check_parts(text, parts)
    try:
        header = json.loads(text.decode(), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_unique)
        if b"\\ud" in text or b"\\uD" in text:
            json.dumps(header, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the header is not JSON: {str(error)[:200]}") from error
    if not isinstance(header, dict):
        raise FrameError("the header is not an object")
    return header


def _finite(text: str) -> float:
    """Return the number; raise `ValueError` for one that is too large, and for `NaN` and `Infinity`."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:20]} is not allowed")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("an object with a duplicate key")
    return unique


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
