"""Frames: round trips, and refusal of anything else."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.protocol.frames import Bounds, EndOfFrames, FrameError, read_frame, write_frame

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(), parts, max_size=4),
    max_leaves=12,
)
headers = st.dictionaries(st.text().filter(lambda name: name != "buffers"), plain, max_size=5)


def written(header: dict[str, Any], buffers: list[bytes]) -> bytes:
    stream = io.BytesIO()
    write_frame(stream, header, buffers)
    return stream.getvalue()


@given(headers, st.lists(st.binary(max_size=64), max_size=5))
def test_a_frame_survives_a_round_trip(header: dict[str, Any], buffers: list[bytes]) -> None:
    frame = read_frame(io.BytesIO(written(header, buffers)))

    assert frame.header == header
    assert list(frame.buffers) == buffers


@given(headers, st.lists(st.binary(max_size=16), max_size=3), st.data())
def test_a_truncated_frame_is_refused(header: dict[str, Any], buffers: list[bytes], data: st.DataObject) -> None:
    whole = written(header, buffers)
    cut = data.draw(st.integers(1, len(whole) - 1))

    with pytest.raises(FrameError):
        read_frame(io.BytesIO(whole[:cut]))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(FrameError):
        read_frame(io.BytesIO(content))


@given(st.binary(max_size=100))
def test_random_headers_are_frames_or_refused(content: bytes) -> None:
    stream = io.BytesIO(struct.pack(">4sI", b"GPT1", len(content)) + content)
    try:
        frame = read_frame(stream)
    except FrameError:
        return
    assert isinstance(frame.header, dict)


def test_the_end_between_two_frames_has_its_own_error() -> None:
    stream = io.BytesIO(written({"op": "grade"}, []))
    read_frame(stream)

    with pytest.raises(EndOfFrames):
        read_frame(stream)


@pytest.mark.parametrize(
    ("bounds", "buffers"),
    [
        (Bounds(header_bytes=4), []),
        (Bounds(buffers=1), [b"a", b"b"]),
        (Bounds(buffer_bytes=3), [b"abcd"]),
        (Bounds(total_bytes=5), [b"abc", b"def"]),
    ],
)
def test_a_frame_over_its_bounds_is_refused(bounds: Bounds, buffers: list[bytes]) -> None:
    with pytest.raises(FrameError):
        read_frame(io.BytesIO(written({"op": "load"}, buffers)), bounds)


def test_an_announced_size_is_not_allocated() -> None:
    text = b'{"buffers":[1000000000]}'
    stream = io.BytesIO(struct.pack(">4sI", b"GPT1", len(text)) + text)

    with pytest.raises(FrameError, match="ended"):
        read_frame(stream)


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999"])
def test_headers_refuse_numbers_that_are_not_finite(number: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        written({"loss": float(number)}, [])
    text = b'{"loss":%s,"buffers":[]}' % number
    with pytest.raises(FrameError):
        read_frame(io.BytesIO(struct.pack(">4sI", b"GPT1", len(text)) + text))
