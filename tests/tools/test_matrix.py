"""`tools/matrix.py`: the plan, the choice of a build, and the counts of its table."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import ROOT

RESULTS = """\
<testsuites><testsuite>
<testcase name="test_a"/><testcase name="test_b"><failure/></testcase>
<testcase name="test_c"><skipped/></testcase><testcase name="test_d"><error/></testcase>
<testcase name="test_e"><system-out>text</system-out></testcase>
</testsuite></testsuites>
"""


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    spec = importlib.util.spec_from_file_location("matrix", ROOT / "tools" / "matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["matrix"] = module
    spec.loader.exec_module(module)
    return module


def test_without_run_it_only_says_how_long_it_takes(tmp_path: Path) -> None:
    folder = tmp_path / "environments"
    command = [sys.executable, str(ROOT / "tools" / "matrix.py"), "--folder", str(folder), "--python", "3.11,2.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "hours for all" in done.stdout
    assert "not on this machine: " in done.stdout
    assert not folder.exists()


def test_a_build_with_cuda_is_chosen_only_on_request(matrix: ModuleType) -> None:
    def report(file: str, version: str) -> str:
        url = f"https://example.org/{file}"
        return json.dumps({"install": [{"metadata": {"version": version}, "download_info": {"url": url}}]})

    cpu = report("torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl", "2.13.0+cpu")
    cuda = report("torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl", "2.13.0")
    assert matrix.choose_build(cpu, cuda=False, on_linux=True) == ("2.13.0+cpu", "")
    version, reason = matrix.choose_build(cuda, cuda=False, on_linux=True)
    assert version == ""
    assert "2.13.0" in reason
    assert matrix.choose_build(cuda, cuda=True, on_linux=True) == ("2.13.0", "")
    assert matrix.choose_build(cuda, cuda=False, on_linux=False) == ("2.13.0", "")


def test_results_are_counted_once_each(matrix: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    file.write_text(RESULTS)
    assert matrix.counts_in(file) == (2, 2, 1, ["test_b", "test_d"])
    assert matrix.Row("3.11", "2.13.0+cpu", 2, 1, 1, "test_b").line == "| 3.11 | 2.13.0+cpu | 2 | 1 | 1 | test_b |"
    assert matrix.Row("3.14", "2.9", note="none").line == "| 3.14 | 2.9 | | | | none |"


def test_a_python_that_is_not_here_is_a_row_with_a_reason(
    matrix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", "--python", "2.0", "--torch", "2.13", "--folder", str(tmp_path)]
    assert matrix.main(words) == 1
    assert "| 2.0 | 2.13 | | | | there is no Python 2.0 on this machine |" in capsys.readouterr().out


def test_pip_gets_the_words_after_two_dashes(matrix: ModuleType) -> None:
    options = matrix.parse(["--tests", "a", "b", "--", "--find-links", "wheels"])
    assert (options.tests, options.pip) == (["a", "b"], ["--find-links", "wheels"])
    assert matrix.parse([]).pip == ["--extra-index-url", matrix.CPU_INDEX]
