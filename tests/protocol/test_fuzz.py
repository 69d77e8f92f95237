"""Whatever a worker writes is a frame, a value, a trace and a report, or is refused in one known way."""

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
from gpututor.protocol.frames import MAGIC, Bounds, FrameError, read_frame, write_frame
from gpututor.protocol.values import ValueRefused
from gpututor.trace.columns import Trace, TraceError
from gpututor.trace.events import Kind
from gpututor.trace.serialization import trace_from_json, trace_to_json
from tests.support.report_strategies import reports

BOUNDS = Bounds(header_bytes=1 << 16, parts=1 << 14, buffers=8, buffer_bytes=1 << 12, total_bytes=1 << 13)
A_FEW_THOUSAND = 3_000
A_MILLION = 1_000_000
WORDS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -1e308, "", "a", "cuda:0", "float32", "nan"),
    *("\ud7ff", "\x1b[31m", [], {}, [[]], [0] * 70, {"k": "list", "v": []}, {"k": "again", "buffer": 0}, "tensor"),
)
"""What takes the place of a part."""


def _answer() -> tuple[dict[str, Any], list[bytes]]:
    """What an honest worker would say."""
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


def _written(header: dict[str, Any], buffers: list[bytes]) -> bytes:
    stream = io.BytesIO()
    write_frame(stream, header, buffers)
    return stream.getvalue()


def _framed(header: Any) -> bytes:
    """With the true buffers, whatever the header says."""
    text = json.dumps(header).encode()
    return struct.pack(">4sI", MAGIC, len(text)) + text + b"".join(BUFFERS)


def _mutated(value: Any, chance: random.Random) -> Any:
    """A copy of plain data in which one part is another."""
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
    spoiled = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        kind, place = chance.randrange(4), chance.randrange(len(spoiled))
        if kind == 0:
            spoiled[place] = chance.randrange(256)
        elif kind == 1:
            del spoiled[place : place + chance.randint(1, 9)]
        elif kind == 2:
            spoiled[place:place] = chance.randbytes(chance.randint(1, 9))
        else:
            spoiled[place] ^= 1 << chance.randrange(8)
        if not spoiled:
            break
    return bytes(spoiled)


def _look(content: bytes) -> bool:
    """Read it as the judge would; whether it got as far as a frame. Raises what nobody expects."""
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
def test_spoiled_frames_are_read_or_refused_in_a_known_way(frames: int) -> None:
    chance = random.Random(frames)
    whole = _written(HEADER, BUFFERS)
    read = 0
    for number in range(frames):
        if number % 2:
            content = _framed(_mutated(WHOLE, chance)) if number % 4 == 1 else _prefixed(chance)
        else:
            content = _bytes_changed(whole, chance)
        read += _look(content)
    assert 0 < read < frames


def _prefixed(chance: random.Random) -> bytes:
    """A true prefix, and a header whose `buffers` are made up."""
    header = {**HEADER, "buffers": chance.choice([[], [0], [-1], [1 << 40], [4] * 9, "x", None, [True], [1, 2, 3]])}
    text = json.dumps(_mutated(header, chance) if chance.random() < 0.5 else header).encode()
    length = len(text) + chance.choice((0, 0, 0, 1, -1, 100))
    return struct.pack(">4sI", MAGIC, length) + text + chance.randbytes(chance.randint(0, 64))


@settings(max_examples=60, deadline=None)
@given(reports(), st.integers(0, 2**32))
def test_spoiled_reports_are_read_or_refused_with_a_value_error(report: Report, seed: int) -> None:
    whole = json.loads(json.dumps(report.to_json()))
    assert Report.from_json(whole) == report
    chance = random.Random(seed)
    for _ in range(30):
        _refused(lambda: Report.from_json(_mutated(whole, chance)), ValueError)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=400))
def test_bytes_that_hypothesis_thinks_of_are_refused(content: bytes) -> None:
    _look(content)
    _look(MAGIC + content)
