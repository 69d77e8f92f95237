"""`gpututor trace`: interruptions, and the processes that a script starts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.trace_command import LIMIT_S, trace

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


@pytest.mark.parametrize(
    ("number", "to_the_group", "words"),
    [
        pytest.param(
            signal.SIGINT,
            True,
            "It ended by SIGINT: KeyboardInterrupt. This is what ran until then.",
            marks=pytest.mark.long,
        ),
        (signal.SIGINT, False, "It ended by SIGINT: KeyboardInterrupt. This is what ran until then."),
        pytest.param(signal.SIGTERM, True, "It ended by SIGTERM. This is what ran until then.", marks=pytest.mark.long),
        (signal.SIGTERM, False, "It ended by SIGTERM. This is what ran until then."),
    ],
)
def test_who_interrupts_gets_a_summary_of_what_ran(
    tmp_path: Path, number: signal.Signals, to_the_group: bool, words: str
) -> None:
    (tmp_path / "script.py").write_text(ENDLESS)
    command = [sys.executable, "-m", "gpututor", "trace", "--gpu", "T4,L4", "script.py"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "began\n"
        if to_the_group:
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
        _, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 128 + number
    assert words in err
    assert re.search(r"^  at most \S+ KiB of memory, reached at script.py:[36]$", err, re.MULTILINE)
    assert "the same on L4" not in err
    t4, l4, *notes = err.splitlines()[-4:]
    assert (t4.split()[0], t4.split()[-1]) == ("T4", "-")
    assert l4.split() == ["L4", *["-"] * 6]
    assert notes == ["  T4: interrupted", "  L4: not run: interrupted"]


def test_sigterm_ends_a_program_that_is_in_a_finaliser(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(ENDLESS_FINALISERS)
    command = [sys.executable, "-m", "gpututor", "trace", "--gpu", "T4", "script.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "began\n"
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 128 + signal.SIGTERM, err
    assert "It ended by SIGTERM." in err


def test_sigterm_gives_the_exit_code_though_c_code_replaces_the_exception(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch\n"
        "print('began', flush=True)\n"
        "try:\n"
        "    while True:\n"
        "        torch.ones(3, device='cuda').mul(2)\n"
        "except BaseException:\n"
        "    raise SystemError('returned a result with an exception set')\n"
    )
    command = [sys.executable, "-m", "gpututor", "trace", "--gpu", "T4", "script.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "began\n"
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 128 + signal.SIGTERM, err


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_of_a_loader_find_the_scripts_classes(tmp_path: Path, method: str) -> None:
    (tmp_path / "script.py").write_text(WORKERS)
    done = trace(tmp_path, "script.py", method)
    assert (done.returncode, done.stdout) == (0, "112.0\n"), done.stderr
    assert "processes used a device" not in done.stderr
    assert re.search(r"^  script.py:25 +2 ", done.stderr, re.MULTILINE)
    assert "Work of DataLoader workers, and of other processes without a GPU, costs nothing" in done.stderr


def test_processes_that_use_devices_are_told_too(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPAWNED)
    words = ("--gpus", "2", "--json", "found.json", "--chrome", "timeline.json", "script.py")
    done = trace(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "2 processes used a device; below is process 0" in done.stderr
    assert re.search(r"^  process 1 .* 2.00 MiB$", done.stderr, re.MULTILINE)
    assert re.search(r"^  script.py:6 ", done.stderr, re.MULTILINE)
    (run,) = json.loads((tmp_path / "found.json").read_text())["runs"]
    main, *children = run["processes"]
    assert main["summary"]["devices"] == []
    assert [child["summary"]["devices"][0]["name"] for child in children] == ["cuda:0", "cuda:1"]
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert any(event["name"] == "aten::sum" for event in events)


@pytest.mark.long
def test_what_a_script_leaves_for_the_end_is_in_the_trace(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import atexit, sys, threading, torch\n"
        "x = torch.ones(3, device='cuda')\n"
        "def late():\n"
        "    print(sys.modules['__main__'].x.mul(2).sum().item())\n"
        "atexit.register(late)\n"
        "threading.Timer(0.1, late).start()\n"
    )
    done = trace(tmp_path, "script.py")
    assert (done.returncode, done.stdout) == (0, "6.0\n6.0\n"), done.stderr
    assert re.search(r"^  script.py:4 +4 ", done.stderr, re.MULTILINE)
