"""`gpututor trace`: the script keeps its streams and its exit code, and the summary says what it did."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.trace_command import TRAIN, trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def test_the_scripts_output_is_untouched_and_the_summary_names_its_lines(folder: Path) -> None:
    done = trace(folder, "--gpu", "H100", "train.py", "--json", "-x", "--", "y")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "given ['--json', '-x', '--', 'y']\n" + "0.0\n" * 12
    lines = done.stderr.splitlines()
    assert lines[1] == "gpututor: train.py on a virtual H100. Times are modelled, not measured."
    assert re.search(r"^\S+ \S+ of modelled time: the host waited for", done.stderr, re.MULTILINE)
    assert re.search(r"^cuda:0: busy for \S+ µs, \S+ % of the time$", done.stderr, re.MULTILINE)
    assert re.search(r"^  copies to the device +12 .* 3.00 MiB, the host waits$", done.stderr, re.MULTILINE)
    assert re.search(r"^  waits of the host +12 ", done.stderr, re.MULTILINE)
    assert re.search(r"^    aten::mm +12 ", done.stderr, re.MULTILINE)
    assert re.search(r"^  at most \S+ KiB of memory, reached at train.py:7$", done.stderr, re.MULTILINE)
    assert re.search(r"^  train.py:7 +24 ", done.stderr, re.MULTILINE)
    assert "Most worth changing" in done.stderr
    assert "train.py:8 reads a value of the device" in done.stderr
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stderr


@pytest.mark.long
def test_a_module_is_run_as_python_runs_it(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "beside.py").write_text("WORD = 'found'\n")
    (package / "train.py").write_text(
        "import sys\n"
        "import torch\n"
        "from . import beside\n"
        "print(__name__, __package__, __spec__.name, beside.WORD, sys.argv, sys.path[0])\n"
        "torch.ones(3, device='cuda')\n"
    )
    done = trace(tmp_path, "-m", "package.train", "--gpu", "none of ours")
    words = f"['{package}/train.py', '--gpu', 'none of ours'] {tmp_path}"
    assert done.stdout == f"__main__ package package.train found {words}\n", done.stderr
    assert "gpututor: -m package.train on a virtual T4." in done.stderr
    assert "train.py:5 " in done.stderr


@pytest.mark.parametrize(
    ("source", "code", "shown", "told"),
    [
        ("raise SystemExit(7)", 7, "", "It ended with exit code 7."),
        ("import sys\nsys.exit('enough')", 1, "enough", "It ended with exit code 1."),
        ("x = = 3", 1, 'script.py", line 1\n    x = = 3', "It ended with exit code 1: SyntaxError: invalid syntax."),
        (
            "import torch\nx = torch.ones(3, device='cuda')\nx.to(torch.ones(2)[0] + x)\nx + torch.ones(3)",
            1,
            "Traceback",
            "RuntimeError: Expected all tensors to be on the same device",
        ),
        ("import os\nos._exit(9)", 9, "", "script.py ended with exit code 9, before its trace could be written."),
        (
            "import os\nos.kill(os.getpid(), 9)",
            137,
            "",
            "script.py ended by SIGKILL, before its trace could be written.",
        ),
    ],
)
def test_the_exit_code_is_the_scripts_own(tmp_path: Path, source: str, code: int, shown: str, told: str) -> None:
    (tmp_path / "script.py").write_text(source)
    done = trace(tmp_path, "script.py")
    assert done.returncode == code, done.stderr
    before, _, after = done.stderr.partition("gpututor: ")
    assert shown in before
    assert told in after.replace("\n", " ")


def test_a_traceback_shows_the_scripts_frames_and_not_ours(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch\n\ndef add():\n    return torch.ones(3, device='cuda') + torch.ones(3)\n\n"
        "try:\n    add()\nexcept RuntimeError as error:\n    raise ValueError('mine') from error\n"
    )
    done = trace(tmp_path, "script.py")
    frames = re.findall(r'File "(.*)", line (\d+)', done.stderr)
    assert frames == [(str(tmp_path / "script.py"), line) for line in ("7", "4", "9")], done.stderr
    assert "ValueError: mine. This is what ran until then." in done.stderr
    assert re.search(r"^  kernels +1 ", done.stderr, re.MULTILINE)


def test_a_script_with_a_hook_of_its_own_shows_its_exceptions_by_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys\nsys.excepthook = lambda kind, error, trace: print('hook:', kind, trace.tb_lineno)\n1 / 0\n"
    )
    done = trace(tmp_path, "script.py")
    assert (done.returncode, done.stdout) == (1, "hook: <class 'ZeroDivisionError'> 3\n"), done.stderr


def test_a_script_without_torch_reads_its_input_and_is_said_to_use_no_device(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint(sys.stdin.read().upper(), end='')\n")
    done = trace(tmp_path, "script.py", stdin="words\n")
    assert (done.returncode, done.stdout) == (0, "WORDS\n"), done.stderr
    assert "No device did anything" in done.stderr


def test_json_has_the_documented_keys(folder: Path) -> None:
    page = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    done = trace(folder, "--json", "found.json", "--gpus", "2", "--memory", "1GiB", "train.py", "a")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    assert (found["schema_version"], found["command"]) == (1, ["train.py", "a"])
    (run,) = found["runs"]
    assert (run["gpu"], run["exit_code"]) == (None, 0)
    (process,) = run["processes"]
    assert process["device"]["name"] == "T4"
    assert (process["device"]["count"], process["device"]["memory_bytes"]) == (2, 1 << 30)
    assert process["modelled"] is True
    summary = process["summary"]
    assert process["time_ns"] >= process["host_ns"] >= summary["host_waiting"] > 0
    (device,) = summary["devices"]
    assert (device["waits"], device["kernel_count"]) == (12, 25)
    keys = {*found, *run, *process, *process["device"], *summary, *device}
    keys |= {*summary["lines"][0], *summary["advice"][0], *device["kernels"][0], *device["copies"][0]}
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_json_can_go_to_stdout_after_the_scripts_output(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('mine')\n")
    done = trace(tmp_path, "--json", "-", "script.py")
    first, rest = done.stdout.split("\n", 1)
    assert first == "mine"
    assert json.loads(rest)["runs"][0]["exit_code"] == 0


def test_the_timeline_is_a_file_for_viewers(folder: Path) -> None:
    done = trace(folder, "--chrome", "timeline.json", "train.py")
    assert "The timeline is in timeline.json: open it in https://ui.perfetto.dev" in done.stderr
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    assert sum(event["name"] == "aten::mm" and event["ph"] == "X" and event["pid"] == 1 for event in events) == 12


@pytest.mark.long
def test_without_values_the_shapes_are_enough_for_time_and_memory(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\nx = torch.empty(1 << 33, device='cuda')\nx *= 2\n")
    done = trace(tmp_path, "--no-values", "--gpu", "A100", "script.py")
    assert done.returncode == 0, done.stderr
    assert "at most 32.0 GiB of memory, reached at script.py:2" in done.stderr


@pytest.mark.long
def test_time_is_virtual_unless_it_is_asked_to_be_real(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import time\nbegan = time.perf_counter()\ntime.sleep(0.2)\nprint(time.perf_counter() - began)\n"
    )
    virtual, real = (trace(tmp_path, *words, "script.py").stdout for words in ((), ("--real-time",)))
    assert 0.2 <= float(virtual) < 0.2001
    assert float(real) > 0.2


@pytest.mark.long
def test_on_a_real_device_what_was_done_is_counted(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\nx = torch.ones(4)\nprint((x @ x).item())\n")
    done = trace(tmp_path, "--device", "cpu", "script.py")
    assert (done.returncode, done.stdout) == (0, "4.0\n"), done.stderr
    assert "gpututor: script.py on the CPU: what it did was counted, times were not measured." in done.stderr.replace(
        "\n", " "
    )
    assert "modelled" not in done.stderr


@pytest.mark.long
def test_a_script_with_a_virtual_gpu_of_its_own_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch\nfrom gpututor.devices.virtual import virtual_gpu\n"
        "torch.ones(3, device='cuda')\nwith virtual_gpu():\n    pass\n"
    )
    done = trace(tmp_path, "script.py")
    words = " ".join(done.stderr.split())
    assert "before entering another. The script enters `virtual_gpu()` itself: remove that block" in words
    assert ".. " not in words


def test_a_script_that_is_no_python_is_not_said_to_have_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("if\n")
    done = trace(tmp_path, "script.py")
    assert "It ended with exit code 1: SyntaxError" in done.stderr
    assert "until then" not in done.stderr


def test_a_machine_without_a_gpu_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\ntorch.ones(3).sum()\n")
    assert "script.py on a machine without a GPU." in trace(tmp_path, "--gpus", "0", "script.py").stderr
