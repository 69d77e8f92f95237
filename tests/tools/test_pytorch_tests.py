"""`tools/pytorch_tests.py` on a small suite: each end of a test is counted once."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

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
