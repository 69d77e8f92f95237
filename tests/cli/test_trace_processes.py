"""`gpututor trace` of interrupted programs, and of programs that start processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.parameters import mostly_long
from tests.support.trace_command import LIMIT_S, trace_script

ENDLESS = """\
import torch

x = torch.ones(1000, device="cuda")
print("began", flush=True)
while True:
    x = x * 1.0
"""
ENDLESS_FINALISERS = """\
import time

import torch


def work():
    x = torch.ones(10, device="cuda")
    for _ in range(1000):
        x = x * 1.0


class Buffer:
    def __del__(self):
        if not began:
            print("began", flush=True)
            began.append(True)
            time.sleep(1.0)
        work()


began = []
while True:
    Buffer()
    work()
"""
WORKERS = """\
import sys
import torch
from torch.utils.data import DataLoader, Dataset


class Item:
    def __init__(self, value):
        self.value = value


class Items(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return Item(torch.full((4,), float(at)))


def together(items):
    return torch.stack([item.value for item in items])


if __name__ == "__main__":
    loader = DataLoader(Items(), 4, num_workers=2, multiprocessing_context=sys.argv[1], collate_fn=together)
    print(sum(batch.cuda().sum().item() for batch in loader))
"""
SPAWNED = """\
import torch
import torch.multiprocessing as mp


def work(rank):
    torch.ones(1 << (18 + rank), device=f"cuda:{rank}").sum().item()


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""
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


SWALLOWED = """\
import torch

print("began", flush=True)
try:
    while True:
        torch.ones(3, device='cuda').mul(2)
except BaseException:
    raise SystemError("returned a result with an exception set")
"""


def interrupt(folder: Path, source: str, number: signal.Signals, *, whole_group: bool = False) -> str:
    """Trace the program on two GPUs, and signal it once it printed; return the summary."""
    (folder / "script.py").write_text(source)
    command = [sys.executable, "-m", "gpututor", "trace", "--gpu", "T4,L4", "script.py"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "began\n"
            os.killpg(child.pid, number) if whole_group else child.send_signal(number)
            _, err = child.communicate(timeout=LIMIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 128 + number, err
    return err


@pytest.mark.parametrize("whole_group", [pytest.param(True, marks=pytest.mark.long), False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_program_is_summarized(tmp_path: Path, number: signal.Signals, whole_group: bool) -> None:
    err = interrupt(tmp_path, ENDLESS, number, whole_group=whole_group)
    assert number.name in err
    assert re.search(r" KiB of memory, .*script.py:[36]$", err, re.MULTILINE)
    t4, l4, *notes = err.splitlines()[-4:]
    assert (t4.split()[0], t4.split()[-1]) == ("T4", "-")
    assert l4.split() == ["L4", *["-"] * 6]
    assert [note.split(":")[0].strip() for note in notes] == ["T4", "L4"]


@pytest.mark.parametrize(
    ("source", "number"),
    [
        pytest.param(ENDLESS_FINALISERS, signal.SIGTERM, id="in a finaliser"),
        pytest.param(ENDLESS_FINALISERS, signal.SIGINT, id="by Ctrl-C in a finaliser"),
        pytest.param(SWALLOWED, signal.SIGTERM, marks=pytest.mark.long, id="exception replaced in C"),
    ],
)
def test_a_signal_ends_any_program_with_its_exit_code(tmp_path: Path, source: str, number: signal.Signals) -> None:
    interrupt(tmp_path, source, number)


@pytest.mark.parametrize("method", mostly_long(["spawn", "fork"], ["spawn"]))
def test_workers_of_a_loader_import_the_scripts_classes(tmp_path: Path, method: str) -> None:
    done = trace_script(tmp_path, WORKERS, "--gpus=1", arguments=[method])
    assert (done.returncode, done.stdout) == (0, "112.0\n"), done.stderr
    assert "processes used a device" not in done.stderr
    assert re.search(r"^  script.py:25 +2 ", done.stderr, re.MULTILINE)
    assert "DataLoader" in done.stderr


def test_every_process_with_a_device_is_in_the_trace(tmp_path: Path) -> None:
    words = "--gpus 2 --json summary.json --chrome timeline.json"
    done = trace_script(tmp_path, SPAWNED, *words.split())
    assert done.returncode == 0, done.stderr
    assert "2 processes used a device" in done.stderr
    assert re.search(r"^  process 1 .*2.00 MiB$", done.stderr, re.MULTILINE)
    assert re.search(r"^  script.py:6 ", done.stderr, re.MULTILINE)
    (run,) = json.loads((tmp_path / "summary.json").read_text())["runs"]
    main, *children = run["processes"]
    assert main["summary"]["devices"] == []
    assert [child["summary"]["devices"][0]["name"] for child in children] == ["cuda:0", "cuda:1"]
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert any(event["name"] == "aten::sum" for event in events)


@pytest.mark.long
def test_work_at_exit_is_in_the_trace(tmp_path: Path) -> None:
    done = trace_script(
        tmp_path,
        "import atexit, sys, threading, torch\n"
        "x = torch.ones(3, device='cuda')\n"
        "def late():\n"
        "    print(sys.modules['__main__'].x.mul(2).sum().item())\n"
        "atexit.register(late)\n"
        "threading.Timer(0.1, late).start()\n",
    )
    assert (done.returncode, done.stdout) == (0, "6.0\n6.0\n"), done.stderr
    assert re.search(r"^  script.py:4 +4 ", done.stderr, re.MULTILINE)


@pytest.mark.long
def test_ranks_share_a_timeline_and_wait_for_the_slowest(tmp_path: Path) -> None:
    words = "--gpu A100 --gpus 2 --json summary.json --chrome timeline.json"
    done = trace_script(tmp_path, RANKS, *words.split(), arguments=[tmp_path])
    assert done.returncode == 0, done.stderr
    assert "2 processes used a device" in done.stderr
    assert re.search(r"^rank 1 waited 7\.\d\d ms ", done.stderr, re.M)
    (run,) = json.loads((tmp_path / "summary.json").read_text())["runs"]
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
def test_a_killed_rank_loses_only_its_own_trace(tmp_path: Path) -> None:
    done = trace_script(
        tmp_path, RANKS, "--gpus", "2", "--json", "summary.json", "--chrome", "t.json", arguments=[tmp_path, 1]
    )
    assert done.stdout == "ProcessExitedException\n"
    (run,) = json.loads((tmp_path / "summary.json").read_text())["runs"]
    assert len(run["processes"]) <= 2
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
