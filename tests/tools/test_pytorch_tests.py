"""`tools/pytorch_tests.py` on a small suite and a small archive: each end of a test is counted once."""

from __future__ import annotations

import importlib.util
import json
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support import ROOT

SUITE = """\
import os

import pytest
import torch


def test_passes():
    assert torch.ones(2, device="cuda").sum().item() == 2


def test_fails():
    assert torch.ones(2, device="cuda").sum().item() == 3


def test_is_refused():
    torch.cuda.ExternalStream(1)


@pytest.mark.skip
def test_is_skipped():
    pass


@pytest.mark.xfail
def test_fails_as_expected():
    assert False


def test_ends_its_process():
    os._exit(1)  # as pytest does after failures, and pytest-timeout


def test_comes_after_that():
    pass


def test_takes_too_long():
    while True:
        pass
"""


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pytorch_tests", ROOT / "tools" / "pytorch_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pytorch_tests"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_each_end_of_a_test_is_counted(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-v")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_small.py").write_text(SUITE)
    runner = tool.Runner(tool.Suite("small", "test_small.py", timeout_s=2), tmp_path, tmp_path, on_cpu=False)
    tests = runner.collect("")
    assert len(tests) == 8
    parts = list(runner.run(tests, time.monotonic() + 1000))
    assert len(parts) == 2
    results = {result.test.partition("::test_")[2]: result for part in parts for result in part}
    assert {name: result.outcome for name, result in results.items()} == {
        "passes": "passed",
        "fails": "failed",
        "is_refused": "failed",
        "is_skipped": "skipped",
        "fails_as_expected": "passed",
        "ends_its_process": "failed",
        "comes_after_that": "passed",
        "takes_too_long": "failed",
    }
    table = tool.reasons()
    kinds = {name: tool.kind_of(results[name], table) for name in ("fails", "is_refused", "takes_too_long")}
    assert kinds == {"fails": "wrong", "is_refused": "unsupported", "takes_too_long": "timeout"}
    line = tool.line_of("small", list(results.values()), 0, table)
    assert line.split() == ["small", "3", "0", "0", "1", "1", "2", "1", "0", "42.9", "%"]


def test_only_the_archives_test_folder_is_unpacked(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "pytorch"
    for name in ("test/test_torch.py", "test/distributed/test_c10d.py", "torch/__init__.py", "setup.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(f"# {name}")
    archive, folder = tmp_path / "pytorch.tar.xz", tmp_path / "unpacked"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(source, "pytorch-2.6.0")
    monkeypatch.setattr(sys, "argv", ["pytorch_tests.py", "unpack", str(archive), str(folder)])
    tool.main()
    assert capsys.readouterr().out == f"2 files in {folder / 'test'}\n"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(folder)) for path in files) == [
        "test/distributed/test_c10d.py",
        "test/test_torch.py",
    ]
    assert (folder / "test" / "test_torch.py").read_text() == "# test/test_torch.py"


def test_a_later_run_continues_from_its_file(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_torch.py").touch()
    results = tmp_path / "results.json"
    ran: list[list[str]] = []

    class Runner:
        """Stand-in whose test `fails` passes from the second time on."""

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def collect(self, only: str) -> list[str]:
            return ["passes", "fails", "last"]

        def run(self, tests: Sequence[str], deadline: float) -> Iterator[list[Any]]:
            ran.append(list(tests))
            for test in tests[:2]:  # the last one runs out of time
                fails = test == "fails" and len(ran) == 1
                yield [tool.Result(test, "failed" if fails else "passed", "E" if fails else "")]

    monkeypatch.setattr(tool, "Runner", Runner)
    monkeypatch.setattr(tool, "suites", lambda: {"small": tool.Suite("small", "test_small.py")})

    def outcomes(*options: str) -> dict[str, str]:
        monkeypatch.setattr(sys, "argv", ["pytorch_tests.py", "run", str(tmp_path), "--json", str(results), *options])
        tool.main()
        return {row["test"]: row["outcome"] for row in json.loads(results.read_text())["small"]}

    assert outcomes() == {"passes": "passed", "fails": "failed"}
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split() == ["small", "1", "0", "0", "0", "0", "1", "0", "1", "50.0", "%"]
    assert outcomes() == {"passes": "passed", "fails": "failed", "last": "passed"}
    assert outcomes("--again") == {"passes": "passed", "last": "passed", "fails": "passed"}
    assert ran == [["passes", "fails", "last"], ["last"], ["fails"]]


def test_times_compare_the_tests_that_passed_in_both_runs(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def row(test: str, outcome: str, seconds: float) -> dict[str, object]:
        return {"test": test, "outcome": outcome, "seconds": seconds}

    names = [f"test_torch.py::TestTorchDeviceType{{device}}::test_{word}_{{small}}_float32" for word in ("a", "b", "c")]
    gpu = [name.format(device="CUDA", small="cuda") for name in names]
    cpu = [name.format(device="CPU", small="cpu") for name in names]
    on_gpu = [row(gpu[0], "passed", 4.0), row(gpu[1], "passed", 5.0), row(gpu[2], "failed", 60.0)]
    on_cpu = [row(cpu[0], "passed", 1.0), row(cpu[1], "passed", 2.0), row(cpu[2], "passed", 1.0)]
    for file, rows in (("gpu.json", on_gpu), ("cpu.json", on_cpu)):
        (tmp_path / file).write_text(json.dumps({"suite": rows}))
    monkeypatch.setattr(sys, "argv", ["x", "times", str(tmp_path / "gpu.json"), str(tmp_path / "cpu.json")])
    tool.main()
    assert capsys.readouterr().out == ("suite: 2 tests passed in both; 9 s and 3 s: 3.0 times the CPU's time\n")
