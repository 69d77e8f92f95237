"""`gpututor trace` of processes that work together: their timelines, and who waits for whom."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.trace_command import trace

RANKS = """\
import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, folder):
    dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.cuda.set_device(rank)
    values = torch.ones(1 << 20, device="cuda")
    if rank == 0:
        torch.cuda._sleep(10_000_000)
    dist.all_reduce(values)
    torch.cuda.synchronize()
    if rank in map(int, sys.argv[2:]):
        os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        mp.spawn(work, (sys.argv[1],), nprocs=2)
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.long
def test_ranks_are_in_one_timeline_and_waiting_for_the_slowest_is_told(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RANKS)
    words = ("--gpu", "A100", "--gpus", "2", "--json", "found.json", "--chrome", "timeline.json", "script.py", tmp_path)
    done = trace(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "2 processes used a device; below is rank 0" in done.stderr
    assert re.search(r"^rank 1 waited 7\.\d\d ms for others in collectives, \d+ % of its time", done.stderr, re.M)
    (run,) = json.loads((tmp_path / "found.json").read_text())["runs"]
    _, slow, fast = run["processes"]
    assert (slow["rank"], fast["rank"]) == (0, 1)
    assert slow["waited_ns"] == 0
    assert fast["waited_ns"] > 7_000_000
    assert slow["time_ns"] == fast["time_ns"]
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert set(names) == {"rank 0 host", "rank 0 cuda:0", "rank 1 host", "rank 1 cuda:1"}
    collectives = {
        event["pid"]: (event["ts"], event["dur"])
        for event in events
        if event["name"] == "c10d::allreduce_" and event["ph"] == "X" and "bytes" in event["args"] and event["tid"] > 1
    }
    assert collectives[names["rank 0 cuda:0"]] == collectives[names["rank 1 cuda:1"]]


@pytest.mark.long
def test_a_rank_that_is_killed_loses_its_own_trace_only(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RANKS)
    done = trace(tmp_path, "--gpus", "2", "--json", "found.json", "--chrome", "t.json", "script.py", tmp_path, 1)
    assert done.stdout == "ProcessExitedException\n"
    (run,) = json.loads((tmp_path / "found.json").read_text())["runs"]
    assert len(run["processes"]) <= 2
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
