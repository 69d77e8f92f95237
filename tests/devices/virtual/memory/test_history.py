"""`torch.cuda.memory._record_memory_history` and what PyTorch's memory visualizer reads of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.api.memory import record_history
from gpututor.devices.virtual.memory.history import ACTIONS

MIB = 1 << 20
cuda_memory: Any = torch.cuda.memory


@pytest.fixture(autouse=True)
def _gpu() -> Iterator[None]:
    with virtual_gpu(1, "T4", memory_bytes=64 * MIB):
        yield


def grown() -> torch.Tensor:
    return torch.zeros(MIB, device="cuda")


def trace() -> list[dict[str, Any]]:
    (entries,) = cuda_memory._snapshot()["device_traces"]
    return list(entries)


def test_each_event_of_a_tensors_life_is_recorded_with_its_line() -> None:
    cuda_memory._record_memory_history()
    x = grown()
    del x
    torch.cuda.empty_cache()
    entries = trace()
    actions = ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "snapshot"]
    assert [entry["action"] for entry in entries] == actions
    allocation = entries[1]
    assert allocation["size"] == 4 * MIB
    assert [frame["name"] for frame in allocation["frames"]][:1] == ["grown"]
    assert allocation["frames"][0]["filename"] == __file__
    times = [entry["time_us"] for entry in entries]
    assert times == sorted(times)


def test_snapshots_have_the_stack_of_live_blocks_and_of_failures() -> None:
    cuda_memory._record_memory_history("state")
    x = grown()
    snapshot = cuda_memory._snapshot()
    assert snapshot["device_traces"] == [[]]
    (segment,) = snapshot["segments"]
    block = next(block for block in segment["blocks"] if block["state"] == "active_allocated")
    assert block["requested_size"] == x.numel() * x.element_size()
    assert block["frames"][0]["name"] == "grown"
    cuda_memory._record_memory_history()  # from now on with events
    assert block in cuda_memory._snapshot()["segments"][0]["blocks"]
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.zeros(100 * MIB, device="cuda")
    event = next(entry for entry in trace() if entry["action"] == "oom")
    assert event["device_free"] <= 64 * MIB


@pytest.mark.parametrize(
    ("context", "with_stack"),
    [(None, set()), ("state", set()), ("alloc", {"segment_alloc", "alloc"}), ("all", set(ACTIONS))],
)
def test_the_context_chooses_the_events_with_a_stack(context: str | None, with_stack: set[str]) -> None:
    cuda_memory._record_memory_history(context=context)
    x = grown()
    block = next(block for block in cuda_memory._snapshot()["segments"][0]["blocks"] if block["requested_size"])
    assert bool(block["frames"]) is (context is not None)
    del x
    torch.cuda.empty_cache()
    entries = trace()
    assert {entry["action"] for entry in entries if entry["frames"]} == with_stack & {e["action"] for e in entries}


def test_the_newest_events_are_kept_and_actions_can_be_skipped() -> None:
    cuda_memory._record_memory_history(max_entries=3)
    for _ in range(10):
        grown()
    assert len(trace()) == 3
    cuda_memory._record_memory_history(None)
    assert trace() == []
    cuda_memory._record_memory_history(skip_actions=["free_requested", "snapshot"])
    grown()
    assert "free_requested" not in {entry["action"] for entry in trace()}


@pytest.mark.parametrize(
    "arguments",
    [{"enabled": "some"}, {"context": "none"}, {"skip_actions": ["malloc"]}],
    ids=["state", "context", "skip"],
)
def test_unknown_arguments_are_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError):
        cuda_memory._record_memory_history(**arguments)


def test_arguments_that_are_new_in_2_14_are_refused_by_name() -> None:
    record_history("all", "all", "all", 1, False, False, False, (), False, True)
    for newest in ((True, True), (False, False)):
        with pytest.raises(NotImplementedError, match="pinned"):
            record_history("all", "all", "all", 1, False, False, False, (), *newest)
    record_history(None)


def test_pytorchs_visualizer_reads_the_dumped_snapshot(tmp_path: Path) -> None:
    cuda_memory._record_memory_history()
    x = grown()
    y = x * 2
    del x
    cuda_memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert "alloc" in _memory_viz.trace(snapshot)
    assert "<script" in _memory_viz.segment_plot(snapshot)
    assert _memory_viz.segsum(snapshot)
    assert "<script" in _memory_viz.trace_plot(snapshot)
    assert y.sum().item() == 0.0
