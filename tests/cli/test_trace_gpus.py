"""`gpututor trace --gpu A,B`: the same script on several GPUs, in one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.trace_command import trace

NEEDS_20_GIB = """\
import sys
import torch

print("on", torch.cuda.get_device_name(), sys.stdin.readline().strip())
big = torch.empty(20 << 28, device="cuda")
big.zero_()
torch.cuda.synchronize()
"""


@pytest.mark.long
def test_gpus_are_compared_in_one_table_and_out_of_memory_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(NEEDS_20_GIB)
    words = ("--no-values", "--json", "found.json", "--gpu", "A100 80, T4,H100", "script.py")
    done = trace(tmp_path, *words, stdin="one line\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "on NVIDIA A100-SXM4-80GB one line\n"
    assert "OutOfMemoryError" not in done.stderr
    head, *rows, note = done.stderr.splitlines()[-5:]
    assert head.split() == ["modelled", "time", "speed", "GPU", "busy", "peak", "memory", "of", "fits"]
    assert [row[:9].strip() for row in rows] == ["A100 80", "T4", "H100"]
    assert [row.split()[-1] for row in rows] == ["yes", "no", "yes"]
    assert "1.00 ×" in rows[0]
    assert "20.0 GiB  79.1 GiB" in rows[0]
    assert rows[1].split()[1:4] == ["-", "-", "-"]
    assert note == "  T4: out of memory at script.py:5: 20.0 GiB asked for, 0 bytes allocated"
    assert "gpututor: the same on T4, without input, its output thrown away …" in done.stderr
    runs = json.loads((tmp_path / "found.json").read_text())["runs"]
    assert [(run["gpu"], run["exit_code"]) for run in runs] == [("A100 80", 0), ("T4", 1), ("H100", 0)]
    a100, _, h100 = (run["processes"][0]["time_ns"] for run in runs)
    assert h100 < a100


@pytest.mark.long
def test_the_exit_code_is_that_of_the_first_gpu_and_the_others_still_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch\nif 'T4' in torch.cuda.get_device_name():\n    raise OSError('no')\n"
    )
    done = trace(tmp_path, "--gpu", "T4,L4", "script.py")
    assert done.returncode == 1
    *_, t4, l4, note = done.stderr.splitlines()
    assert (t4.split()[0], t4.split()[-1]) == ("T4", "yes")
    assert (l4.split()[0], l4.split()[-1]) == ("L4", "yes")
    assert note == "  T4: ended with exit code 1: OSError: no"


@pytest.mark.long
def test_a_program_that_mostly_launches_compares_hosts(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch\nx = torch.ones(3, device='cuda')\nfor _ in range(500):\n    x = x + 1\n"
    )
    done = trace(tmp_path, "--gpu", "T4,L4", "script.py")
    note = "mostly launches: this compares the hosts more than the GPUs"
    assert done.stderr.splitlines()[-1].strip() == note
    (tmp_path / "script.py").write_text("import torch\nx = torch.ones(1 << 24, device='cuda').sum().item()\n")
    assert note not in trace(tmp_path, "--gpu", "T4,L4", "script.py").stderr
