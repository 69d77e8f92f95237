"""`gpututor trace`: what is wrong with a command line is said before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.trace_command import trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text("print('ran')\n")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "There is nothing to trace. Name a script, or -m and a module."),
        (["-m"], "-m needs the name of a module."),
        (["nowhere.py"], "There is no file nowhere.py."),
        (["empty"], "empty is a folder without a __main__.py."),
        (["-m", "nowhere"], "There is no module 'nowhere'."),
        (["-m", "script.py"], "script.py is a file, and -m takes the name of a module. Leave out -m."),
        (["torchrun", "script.py"], "Use -m torch.distributed.run."),
        (["--gpu", "T4,A10H", "script.py"], "The nearest name is 'A10G'."),
        (["--gpu", "T4,", "script.py"], "--gpu: a name is missing in 'T4,'."),
        (["--gpus", "9", "script.py"], "--gpus: a machine has 0 to 8 virtual GPUs, not 9."),
        (["--memory", "12", "script.py"], "--memory: '12' has no unit: say 512MiB or 16GiB."),
        (["--device", "gpu", "script.py"], "There is no device 'gpu'."),
        (["--device", "cuda:77", "script.py"], "This machine has no device cuda:77."),
        (["--device", "cpu", "--no-values", "script.py"], "--no-values is for the virtual GPU, not for --device cpu."),
        (["--device", "mps", "--gpu", "T4", "script.py"], "--gpu is for the virtual GPU, not for --device mps."),
        (["--device", "mps", "--model", "T4", "script.py"], "--model is for the virtual GPU, not for --device mps."),
        (["--json", "no/where", "script.py"], "--json: no/where cannot be written: No such file or directory."),
        (["--chrome", "empty", "script.py"], "--chrome: empty cannot be written: Is a directory."),
        (["--json", "x", "--chrome", "./x", "script.py"], "--json and --chrome name the same file."),
        (["--json", "script.py"], "There is nothing to trace."),
        (["--chrome", "script.py", "script.py"], "--chrome names a Python file, script.py."),
    ],
)
def test_a_wrong_command_line_is_refused_in_words_and_nothing_runs(folder: Path, words: list[str], told: str) -> None:
    done = trace(folder, *words)
    assert done.returncode == 2
    assert told in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in folder.iterdir()) == ["empty", "script.py"]
