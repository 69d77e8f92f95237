"""`gpututor trace`: the script keeps its streams and exit code, and the summary says what it did."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.trace_command import TRAIN, trace, trace_script

NEEDS_20_GIB = """\
import sys
import torch

print("on", torch.cuda.get_device_name(), sys.stdin.readline().strip())
big = torch.empty(20 << 28, device="cuda")
big.zero_()
torch.cuda.synchronize()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `train.py`."""
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def test_output_is_the_scripts_and_the_summary_names_its_lines(folder: Path) -> None:
    done = trace(folder, "--gpu", "H100", "train.py", "--json", "-x", "--", "y")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "given ['--json', '-x', '--', 'y']\n" + "0.0\n" * 12
    lines = done.stderr.splitlines()
    for pattern in (
        "gpututor: train.py on a virtual H100",
        r"cuda:0: busy for \S+ µs, \S+ %",
        "  copies to the device +12 .* 3.00 MiB",
        "  waits of the host +12 ",
        "    aten::mm +12 ",
        r"  at most \S+ KiB of memory, reached at train.py:7$",
        "  train.py:7 +24 ",
        ".*train.py:8 ",
    ):
        assert re.search(f"^{pattern}", done.stderr, re.MULTILINE), pattern
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stderr


@pytest.mark.long
def test_a_module_runs_as_with_python(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("WORD = 'imported'\n")
    (package / "train.py").write_text(
        "import sys\n"
        "import torch\n"
        "from . import words\n"
        "print(__name__, __package__, __spec__.name, words.WORD, sys.argv, sys.path[0])\n"
        "torch.ones(3, device='cuda')\n"
    )
    done = trace(tmp_path, "-m", "package.train", "--gpu", "none of ours")
    words = f"['{package}/train.py', '--gpu', 'none of ours'] {tmp_path}"
    assert done.stdout == f"__main__ package package.train imported {words}\n", done.stderr
    assert "-m package.train on " in done.stderr
    assert "train.py:5 " in done.stderr


MIXED = "import torch\nx = torch.ones(3, device='cuda')\nx.to(torch.ones(2)[0] + x)\nx + torch.ones(3)"


@pytest.mark.parametrize(
    ("source", "code", "before", "after"),
    [
        ("raise SystemExit(7)", 7, "", "exit code 7"),
        pytest.param("import sys\nsys.exit('enough')", 1, "enough", "exit code 1", marks=pytest.mark.long),
        pytest.param("x = = 3", 1, 'script.py", line 1\n    x = = 3', "SyntaxError", marks=pytest.mark.long),
        (MIXED, 1, "Traceback", "RuntimeError"),
        pytest.param("import os\nos._exit(9)", 9, "", "exit code 9, before its trace", marks=pytest.mark.long),
        ("import os\nos.kill(os.getpid(), 9)", 137, "", "SIGKILL, before its trace"),
    ],
)
def test_the_exit_code_is_the_scripts_own(tmp_path: Path, source: str, code: int, before: str, after: str) -> None:
    done = trace_script(tmp_path, source)
    assert done.returncode == code, done.stderr
    error, _, summary = done.stderr.partition("gpututor: ")
    summary = summary.replace("\n", " ")
    assert before in error
    assert after in summary
    assert ("until then" in summary) == (source is MIXED), "a script that did nothing is not said to have run"


@pytest.mark.parametrize(
    ("options", "source", "code", "stdout", "summary"),
    [
        (
            "",
            "import sys\nsys.excepthook = lambda kind, error, trace: print('hook:', kind, trace.tb_lineno)\n1 / 0\n",
            1,
            "hook: <class 'ZeroDivisionError'> 3\n",
            "exit code 1",
        ),
        ("", "import sys\nprint(sys.stdin.read().upper(), end='')\n", 0, "WORDS\n", "No device did anything"),
        ("--gpus 0", "import torch\ntorch.ones(3).sum()\n", 0, "", "on a machine without a GPU"),
        pytest.param(
            "--no-values --gpu A100",
            "import torch\nx = torch.empty(1 << 33, device='cuda')\nx *= 2\n",
            0,
            "",
            "32.0 GiB of memory, [^\n]* script.py:2\n",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "--device cpu",
            "import torch\nx = torch.ones(4)\nprint((x @ x).item())\n",
            0,
            "4.0\n",
            "script.py on the CPU(?!.*modelled)",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_script_runs_as_usual_and_is_summarized(
    tmp_path: Path, options: str, source: str, code: int, stdout: str, summary: str
) -> None:
    done = trace_script(tmp_path, source, *options.split(), stdin="words\n")
    assert (done.returncode, done.stdout) == (code, stdout), done.stderr
    assert re.search(summary, done.stderr, re.DOTALL), done.stderr


def test_a_traceback_has_only_the_scripts_frames(tmp_path: Path) -> None:
    done = trace_script(
        tmp_path,
        "import torch\n\ndef add():\n    return torch.ones(3, device='cuda') + torch.ones(3)\n\n"
        "try:\n    add()\nexcept RuntimeError as error:\n    raise ValueError('mine') from error\n",
    )
    frames = re.findall(r'File "(.*)", line (\d+)', done.stderr)
    assert frames == [(str(tmp_path / "script.py"), line) for line in ("7", "4", "9")], done.stderr
    assert re.search(r"^  kernels +1 ", done.stderr, re.MULTILINE)


def test_json_has_the_documented_keys_and_the_timeline_is_for_viewers(folder: Path) -> None:
    page = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    timeline = ("--chrome", "timeline.json")
    done = trace(folder, "--json", "summary.json", "--gpus", "2", "--memory", "1GiB", *timeline, "train.py", "a")
    assert done.returncode == 0, done.stderr
    assert "timeline.json" in done.stderr
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    assert sum(event["name"] == "aten::mm" and event["ph"] == "X" and event["pid"] == 1 for event in events) == 12
    document: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    assert (document["schema_version"], document["command"]) == (1, ["train.py", "a"])
    (run,) = document["runs"]
    assert (run["gpu"], run["exit_code"]) == (None, 0)
    (process,) = run["processes"]
    assert process["device"]["name"] == "T4"
    assert (process["device"]["count"], process["device"]["memory_bytes"]) == (2, 1 << 30)
    assert process["modelled"] is True
    summary = process["summary"]
    assert process["time_ns"] >= process["host_ns"] >= summary["host_waiting"] > 0
    (device,) = summary["devices"]
    assert (device["waits"], device["kernel_count"]) == (12, 25)
    keys = {*document, *run, *process, *process["device"], *summary, *device}
    keys |= {*summary["lines"][0], *summary["advice"][0], *device["kernels"][0], *device["copies"][0]}
    assert {key for key in keys if f"`{key}`" not in page} == set()


@pytest.mark.long
def test_json_goes_to_stdout_and_real_time_replaces_virtual_time(tmp_path: Path) -> None:
    done = trace_script(tmp_path, "print('mine')\n", "--json", "-")
    first, rest = done.stdout.split("\n", 1)
    assert first == "mine"
    assert json.loads(rest)["runs"][0]["exit_code"] == 0
    source = "import time\nbegan = time.perf_counter()\ntime.sleep(0.2)\nprint(time.perf_counter() - began)\n"
    virtual, real = (trace_script(tmp_path, source, *words).stdout for words in ((), ("--real-time",)))
    assert 0.2 <= float(virtual) < 0.2001
    assert float(real) > 0.2


@pytest.mark.long
def test_several_gpus_are_compared_and_out_of_memory_is_a_row(tmp_path: Path) -> None:
    words = ("--no-values", "--json", "summary.json", "--gpu", "A100 80, T4,H100")
    done = trace_script(tmp_path, NEEDS_20_GIB, *words, stdin="one line\n")
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
    assert re.match(r"  T4: .* script.py:5", note)
    runs = json.loads((tmp_path / "summary.json").read_text())["runs"]
    assert [(run["gpu"], run["exit_code"]) for run in runs] == [("A100 80", 0), ("T4", 1), ("H100", 0)]
    a100, _, h100 = (run["processes"][0]["time_ns"] for run in runs)
    assert h100 < a100


@pytest.mark.long
def test_the_exit_code_is_the_first_gpus_and_the_others_still_run(tmp_path: Path) -> None:
    done = trace_script(
        tmp_path, "import torch\nif 'T4' in torch.cuda.get_device_name():\n    raise OSError('no')\n", "--gpu", "T4,L4"
    )
    assert done.returncode == 1
    *_, t4, l4, note = done.stderr.splitlines()
    assert [(row.split()[0], row.split()[-1]) for row in (t4, l4)] == [("T4", "yes"), ("L4", "yes")]
    assert "OSError: no" in note


@pytest.mark.long
def test_launch_bound_programs_and_own_virtual_gpus_get_advice(tmp_path: Path) -> None:
    done = trace_script(
        tmp_path,
        "import torch\nx = torch.ones(3, device='cuda')\nfor _ in range(500):\n    x = x + 1\n",
        "--gpu",
        "T4,L4",
    )
    note = "mostly launches"
    assert note in done.stderr.splitlines()[-1]
    done = trace_script(tmp_path, "import torch\ntorch.ones(1 << 24, device='cuda').sum().item()\n", "--gpu", "T4,L4")
    assert note not in done.stderr
    done = trace_script(
        tmp_path,
        "import torch\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "torch.ones(3, device='cuda')\nwith virtual_gpu():\n    pass\n",
    )
    words = " ".join(done.stderr.split())
    assert "remove that block" in words
    assert ".. " not in words


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "nothing to trace"),
        (["-m"], "-m"),
        (["nowhere.py"], "nowhere.py"),
        (["empty"], "__main__.py"),
        (["-m", "nowhere"], "'nowhere'"),
        (["-m", "train.py"], "Leave out -m"),
        (["torchrun", "train.py"], "-m torch.distributed.run"),
        (["--gpu", "T4,A10H", "train.py"], "'A10G'"),
        (["--gpu", "T4,", "train.py"], "--gpu"),
        (["--gpus", "9", "train.py"], "--gpus"),
        (["--memory", "12", "train.py"], "--memory"),
        (["--device", "gpu", "train.py"], "'gpu'"),
        (["--device", "cuda:77", "train.py"], "cuda:77"),
        (["--device", "cpu", "--no-values", "train.py"], "--no-values"),
        (["--device", "mps", "--gpu", "T4", "train.py"], "--gpu"),
        (["--device", "mps", "--model", "T4", "train.py"], "--model"),
        (["--json", "no/where", "train.py"], "--json"),
        (["--chrome", "empty", "train.py"], "--chrome"),
        (["--json", "x", "--chrome", "./x", "train.py"], "--json and --chrome"),
        (["--json", "train.py"], "nothing to trace"),
        (["--chrome", "train.py", "train.py"], "--chrome"),
        (["pipe.py"], "pipe.py"),
        (["/dev/zero"], "/dev/zero"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_runs(folder: Path, words: list[str], named: str) -> None:
    (folder / "empty").mkdir()
    os.mkfifo(folder / "pipe.py")
    done = trace(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["empty", "pipe.py", "train.py"]
