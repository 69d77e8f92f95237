"""Recordings: totals, and strict reading."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpututor.grading.recording import (
    FILE,
    BaselineRecording,
    CallRecording,
    LineCost,
    Recording,
    RunRecording,
    read_recording,
    write_recording,
)

CALL = CallRecording("call 1 of 2, with size=3", "run1_1.trace", 9000, 100, 512, 4, 12, 0)
COST = LineCost(4, 2, 800, 1, 60, 4096, 1, 300, 512, ("a reads what b writes",))
SLOW = BaselineRecording("slow.py", (CALL,))
RUN = RunRecording("one GPU", "cuda:0, virtual T4", "modelled", (CALL,), (SLOW,), (COST,))
RECORDING = Recording((RUN,), "3 events are not in the traces: one recording holds 64 MiB.")


def test_a_recording_survives_a_round_trip(tmp_path: Path) -> None:
    write_recording(RECORDING, tmp_path)
    recording = read_recording(tmp_path)
    assert recording == replace(RECORDING, folder=str(tmp_path))
    assert recording.trace_path(CALL) == tmp_path / "run1_1.trace"
    assert recording.trace_path(replace(CALL, trace="")) is None


def test_figures_are_totals_over_calls_with_ranks_in_parallel() -> None:
    two = replace(RUN, calls=(CALL, replace(CALL, elapsed_ns=1, floor_ns=1, peak_bytes=600)))
    assert (two.elapsed_ns, two.floor_ns, two.peak_bytes) == (9001, 101, 600)
    assert replace(RUN, calls=(CALL, replace(CALL, floor_ns=0))).floor_ns == 0
    assert Recording((two, replace(RUN, times=""))).elapsed_ns == 9001
    assert Recording(()).peak_bytes == 0
    ranks = [replace(CALL, words=f"call 1 of 2, rank {rank}", elapsed_ns=9000 + rank) for rank in range(2)]
    run = replace(RUN, calls=(*ranks, replace(CALL, words="call 2 of 2, rank 0", elapsed_ns=5)))
    assert run.elapsed_ns == 9006
    assert run.floor_ns == 200
    assert replace(SLOW, calls=tuple(ranks)).elapsed_ns == 9001


def _with(path: tuple[str | int, ...], value: object) -> Any:
    data = json.loads(json.dumps(RECORDING.to_json()))
    part = data
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("version",), 2, "version "),
        (("runs",), {}, "runs "),
        (("runs", 0, "times"), "guessed", "runs[0].times "),
        (("runs", 0, "calls", 0, "elapsed_ns"), "9", "runs[0].calls[0].elapsed_ns "),
        (("runs", 0, "calls", 0, "elapsed_ns"), -1, "runs[0].calls[0]: elapsed_ns "),
        (("runs", 0, "calls", 0, "trace"), "../secret", "trace "),
        (("runs", 0, "calls", 0, "trace"), "..", "trace "),
        (("runs", 0, "lines", 0, "hazards"), [1], "runs[0].lines[0].hazards[0] "),
        (("runs", 0, "more"), 1, "runs[0].more "),
        (("folder",), "/", "folder "),
    ],
)
def test_a_malformed_recording_is_refused_with_its_place(
    tmp_path: Path, path: tuple[str | int, ...], value: object, place: str
) -> None:
    (tmp_path / FILE).write_text(json.dumps(_with(path, value)))
    with pytest.raises(ValueError, match=FILE) as caught:
        read_recording(tmp_path)
    assert place in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"version": 1}', "\x00", "null"])
def test_other_texts_and_oversized_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=FILE):
        read_recording(tmp_path)
    os.truncate(tmp_path / FILE, 1 << 40)
    with pytest.raises(ValueError, match="larger than any recording"):
        read_recording(tmp_path)
