"""A trace as a file: what is written is read again, and what is no trace is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpututor.trace.columns import TYPES, Trace, TraceError
from gpututor.trace.events import Kind
from gpututor.trace.serialization import VERSION, read_trace, write_trace


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(3):
        trace.add(Kind.KERNEL, f"aten::{number}", "cuda:0", launched=number, start=number, end=number + 1, line=number)
    path = str(tmp_path / "small.trace")
    write_trace(trace, path)
    assert list(read_trace(path)) == list(trace)


@pytest.mark.parametrize("length", [-1, 1 << 40, "3", None, True, 2.0])
def test_an_odd_number_of_events_is_no_trace(tmp_path: Path, length: object) -> None:
    head = {"version": VERSION, "length": length, "dropped": 0, "names": [""], "devices": [""], "files": [""]}
    path = tmp_path / "odd.trace"
    path.write_text(json.dumps({**head, "alone": dict.fromkeys(TYPES, 0)}) + "\n")
    with pytest.raises(TraceError, match="is not a trace"):
        read_trace(str(path))
