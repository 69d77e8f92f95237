"""Options and errors of `python -m gpututor.devices.virtual`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.devices.virtual.options import bytes_in
from tests.support.virtual_gpus import printed, run_python


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "-m"),
        (["-m"], "-m"),
        (["--model", "Z9", "x.py"], "Z9"),
        (["--gpus", "1", "torchrun", "train.py"], "this runs Python files.\nUse -m torch.distributed.run."),
        (["python", "plain.py"], "python is a command, and this runs Python already.\nSay 'plain.py' without it."),
        (["python3.11"], "python3.11 is a command, and this runs Python already.\nSay 'SCRIPT' without it."),
        (["env"], "env is a command, and this runs Python files.\nName a file, or a module after -m."),
        (["nowhere.py"], "There is no file nowhere.py."),
        (["--gpus", "9", "x.py"], "argument --gpus: a machine has 0 to 8 virtual GPUs, not 9"),
        (["--gpus", "H100", "x.py"], "argument --gpus: a machine has 0 to 8 virtual GPUs, not H100"),
        (["--memory", "512", "x.py"], "argument --memory: '512' has no unit: write 512MiB or 16GiB"),
        (["--memory", "0MiB", "x.py"], "argument --memory: '0MiB' is not a size of memory: write 512MiB or 16GiB"),
        (["--memory-mib", "-3", "x.py"], "argument --memory-mib: a whole number, not '-3'"),
        (["--memory", "1GiB", "--memory-mib", "3", "x.py"], "not allowed with argument --memory"),
    ],
)
def test_invalid_options_are_usage_errors(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run_python("-m", "gpututor.devices.virtual", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("memory", [["--memory", "0.5GiB"], ["--memory-mib", "512"]])
def test_options_configure_the_machine(memory: list[str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import torch; print(torch.cuda.device_count(), torch.cuda.get_device_name(), torch.cuda.mem_get_info()[1])"
    )
    command = ["-m", "gpututor.devices.virtual", "--gpus", "2", "--model", "H100", *memory, "script.py"]
    assert printed(*command, cwd=tmp_path) == f"2 NVIDIA H100 80GB HBM3 {2**29}\n"


@pytest.mark.parametrize(
    ("word", "size"), [("512MiB", 2**29), ("16 GB", 16 * 10**9), ("1.5gib", 3 << 29), ("7B", 7), (" 2KiB ", 2048)]
)
def test_sizes_are_parsed_with_their_unit(word: str, size: int) -> None:
    assert bytes_in(word) == size
