"""Frames: round trips, and refusal of anything else; damaged frames, values, traces and reports."""

from __future__ import annotations

import contextlib
import io
import json
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.grading.report import Report
from gpututor.protocol.decode import Decoder, facts_by_path
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import MAGIC, Bounds, EndOfFrames, FrameError, read_frame, write_frame
from gpututor.protocol.values import ValueRefused
from gpututor.trace.columns import Trace, TraceError
from gpututor.trace.events import Kind
from gpututor.trace.serialization import trace_from_json, trace_to_json
from tests.support.report_strategies import reports

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


BOUNDS = Bounds(header_bytes=1 << 16, parts=1 << 14, buffers=8, buffer_bytes=1 << 12, total_bytes=1 << 13)
A_FEW_THOUSAND = 3_000
A_MILLION = 1_000_000
WORDS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -1e308, "", "a", "cuda:0", "float32", "nan"),
    *("\ud7ff", "\x1b[31m", [], {}, [[]], [0] * 70, {"k": "list", "v": []}, {"k": "again", "buffer": 0}, "tensor"),
)
"""Replacements for a part."""


def _answer() -> tuple[dict[str, Any], list[bytes]]:
    """Return an honest worker's answer."""
    packer = Encoder()
    layer = torch.nn.Linear(2, 2)
    value = {"a": [torch.ones(2, 3), 1, 2.5, None, "text"], (1, 2): layer, "d": torch.device("cpu"), "t": torch.float16}
    node = packer.pack(value)
    trace = Trace()
    for _ in range(3):
        trace.add(
            Kind.TRANSFER, "copy", "cuda:0", source="cpu", target="cuda:0", size_bytes=8, launched=1, file="f", line=2
        )
    header = {"event": "returned", "output": node, "trace": trace_to_json(trace), "arguments": packer.facts(value)}
    return header, packer.buffers


HEADER, BUFFERS = _answer()
WHOLE = {**HEADER, "buffers": [len(buffer) for buffer in BUFFERS]}


def _framed(header: Any) -> bytes:
    """Return a frame with any header and the true buffers."""
    text = json.dumps(header).encode()
    return struct.pack(">4sI", MAGIC, len(text)) + text + b"".join(BUFFERS)


def _mutated(value: Any, chance: random.Random) -> Any:
    """Copy plain data with one part replaced."""
    if not isinstance(value, list | dict) or not value or chance.random() < 0.15:
        return chance.choice(WORDS)
    copied: Any = value.copy()
    if isinstance(copied, list):
        place: Any = chance.randrange(len(copied))
    else:
        place = chance.choice(list(copied))
        if chance.random() < 0.1:
            copied[f"{place}x"] = copied.pop(place)
            return copied
    if chance.random() < 0.1:
        copied.pop(place)
    else:
        copied[place] = _mutated(copied[place], chance)
    return copied


def _bytes_changed(content: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        kind, place = chance.randrange(4), chance.randrange(len(damaged))
        if kind == 0:
            damaged[place] = chance.randrange(256)
        elif kind == 1:
            del damaged[place : place + chance.randint(1, 9)]
        elif kind == 2:
            damaged[place:place] = chance.randbytes(chance.randint(1, 9))
        else:
            damaged[place] ^= 1 << chance.randrange(8)
        if not damaged:
            break
    return bytes(damaged)


def _is_frame(content: bytes) -> bool:
    """Read like the judge; return true for a whole frame, and raise unexpected errors."""
    try:
        frame = read_frame(io.BytesIO(content), BOUNDS)
    except FrameError:
        return False
    _refused(lambda: Decoder(frame.buffers).unpack(frame.header.get("output")), ValueRefused)
    _refused(lambda: facts_by_path(frame.header.get("arguments")), ValueRefused)
    _refused(lambda: trace_from_json(frame.header.get("trace"), limit=100), TraceError)
    return True


def _refused(read: Callable[[], object], known: type[Exception]) -> None:
    with contextlib.suppress(known):
        read()


@pytest.mark.parametrize("frames", [A_FEW_THOUSAND, pytest.param(A_MILLION, marks=pytest.mark.long)])
def test_damaged_frames_raise_only_known_errors(frames: int) -> None:
    chance = random.Random(frames)
    whole = written(HEADER, BUFFERS)
    read = 0
    for number in range(frames):
        if number % 2:
            content = _framed(_mutated(WHOLE, chance)) if number % 4 == 1 else _prefixed(chance)
        else:
            content = _bytes_changed(whole, chance)
        read += _is_frame(content)
    assert 0 < read < frames


def _prefixed(chance: random.Random) -> bytes:
    """Return a valid prefix and a header with invented `buffers`."""
    header = {**HEADER, "buffers": chance.choice([[], [0], [-1], [1 << 40], [4] * 9, "x", None, [True], [1, 2, 3]])}
    text = json.dumps(_mutated(header, chance) if chance.random() < 0.5 else header).encode()
    length = len(text) + chance.choice((0, 0, 0, 1, -1, 100))
    return struct.pack(">4sI", MAGIC, length) + text + chance.randbytes(chance.randint(0, 64))


@settings(max_examples=60, deadline=None)
@given(reports(), st.integers(0, 2**32))
def test_damaged_reports_raise_only_value_errors(report: Report, seed: int) -> None:
    whole = json.loads(json.dumps(report.to_json()))
    assert Report.from_json(whole) == report
    chance = random.Random(seed)
    for _ in range(30):
        _refused(lambda: Report.from_json(_mutated(whole, chance)), ValueError)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_raise_only_known_errors(content: bytes) -> None:
    _is_frame(content)
    _is_frame(MAGIC + content)
